/** The boards of the end-to-end tests, one for each transport that several processes can share. */
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { generateId } from "../../runtime/id.ts"
import { startNats } from "../support/servers/nats.ts"
import { type PostgresServer, startPostgres } from "../support/servers/postgres.ts"
import { spawnScript, temporaryFolder } from "../support/servers/process.ts"
import { startRabbitmq } from "../support/servers/rabbitmq.ts"
import { startRedis } from "../support/servers/redis.ts"

/** A board. Processes and clients of a test are kept by its board and end with it: tests that run side by side end only their own. */
export interface SharedBoard extends AsyncDisposable {
  /** The URL of the board. `lease`: length of a lease in seconds. Defaults to 30. */
  url(lease?: number): string
  /** A folder for the files of the test. */
  readonly folder: string
  /** Disposes of the resource when the board is disposed of; the resource that was kept last goes first. Returns the resource. */
  keep<R extends AsyncDisposable>(resource: R): R
  /** Kills the broker and starts it again; absent where there is none. */
  restartBroker?(): Promise<void>
  /** Keeps the broker from answering for this many milliseconds; absent where there is none. */
  outage?(ms: number): Promise<void>
  /**
   * Kills the broker, of a cluster all servers, and starts it again after this many milliseconds. Without a broker another process
   * locks the file. Absent where tests share the broker.
   */
  blackout?(ms: number): Promise<void>
}

export interface BoardKind {
  readonly name: string
  open(): Promise<SharedBoard>
}

/** Makes the folder of a board, and keeps resources that are disposed of with it. */
export const scope = () => {
  const stack = new AsyncDisposableStack()
  const folder = temporaryFolder()
  stack.defer(() => folder.remove())
  return {
    folder: folder.path,
    keep: <R extends AsyncDisposable>(resource: R): R => stack.use(resource),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}

const LOCK = fileURLToPath(new URL("lock.ts", import.meta.url))

const sqlite: BoardKind = {
  name: "sqlite",
  open: async () => {
    const own = scope()
    const file = `${own.folder}/board.db`
    const blackout = async (ms: number) => {
      await using lock = spawnScript(LOCK, [file])
      await lock.waitForLine(/^locked$/)
      await sleep(ms)
      lock.write("\n")
      await lock.exited
    }
    return { ...own, url: (lease = 30) => `sqlite:${file}?lease=${lease}`, blackout }
  },
}

interface Broker extends AsyncDisposable {
  readonly url: string
  kill(): Promise<unknown>
  restart(): Promise<unknown>
  /** Freezes the process: its connections stay open, and after `resume` it answers what it was sent in the meantime. */
  pause?(): void
  resume?(): void
}

/**
 * A board on a broker of its own. In an outage the broker is frozen; one that cannot be frozen is killed. `isQueueOnly`: the records
 * lie in a file of sqlite.
 */
const brokerBoard = (name: string, start: () => Promise<Broker>, isQueueOnly = false): BoardKind => ({
  name,
  open: async () => {
    const own = scope()
    const broker = own.keep(await start())
    const blackout = async (ms: number) => {
      await broker.kill()
      await sleep(ms)
      await broker.restart()
    }
    return {
      ...own,
      url: (lease = 30) =>
        `${broker.url}?lease=${lease}${isQueueOnly ? `&records=sqlite:${own.folder}/records.db` : ""}`,
      restartBroker: () => blackout(0),
      blackout,
      outage: async (ms) => {
        if (broker.pause === undefined) await broker.kill()
        else broker.pause()
        await sleep(ms)
        if (broker.resume === undefined) await broker.restart()
        else broker.resume()
      },
    }
  },
})

const nats = brokerBoard("nats", startNats)
const postgres = brokerBoard("postgres", startPostgres)
const redis = brokerBoard("redis", startRedis)
const amqp = brokerBoard("amqp", startRabbitmq, true)

/** Boards on a PostgreSQL server that runs already, each in a schema of its own: starting a server takes a second. */
export const postgresBoards = (server: () => PostgresServer): BoardKind => ({
  name: "postgres",
  open: async () => {
    const namespace = generateId()
    return { ...scope(), url: (lease = 30) => `${server().url}?lease=${lease}&ns=${namespace}` }
  },
})

/** The interop tests use the brokers of Celery alone. */
const isInterop = process.env["CALLBOARD_TEST_BOARDS"] === "redis"

export const sharedBoards: ReadonlyArray<BoardKind> = isInterop ? [redis, amqp] : [sqlite, nats]

/** Every board that can be named. */
export const everyBoard: ReadonlyArray<BoardKind> = [sqlite, nats, postgres, redis, amqp]

/** All boards: the shared ones, and those of transports that are used only in tests in which workers and brokers die. */
export const allBoards: ReadonlyArray<BoardKind> = isInterop ? [redis, amqp] : [...sharedBoards, postgres, redis]
