/** The transports of the end-to-end tests: all that several processes can share. */
import { setTimeout as sleep } from "node:timers/promises"
import { generateId } from "../../runtime/id.ts"
import { startNats } from "../support/servers/nats.ts"
import { type PostgresServer, startPostgres } from "../support/servers/postgres.ts"
import { temporaryFolder } from "../support/servers/process.ts"
import { startRedis } from "../support/servers/redis.ts"

/** All that a test starts on a board ends with the board: so tests that run side by side end their own. */
export interface SharedBoard extends AsyncDisposable {
  /** Its URL, with a lease of so many seconds. */
  url(lease?: number): string
  /** A folder for the files of the test. */
  readonly folder: string
  /** Disposes of a resource when the board is disposed of, last kept first. */
  keep<R extends AsyncDisposable>(resource: R): R
  /** Kills the broker and starts it again; absent where there is none. */
  restartBroker?(): Promise<void>
  /** The broker answers nothing for so many milliseconds; absent where there is none. */
  outage?(ms: number): Promise<void>
}

export interface BoardKind {
  readonly name: string
  open(): Promise<SharedBoard>
}

/** A board's folder, and what ends with the board. */
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

const sqlite: BoardKind = {
  name: "sqlite",
  open: async () => {
    const own = scope()
    return { ...own, url: (lease = 30) => `sqlite:${own.folder}/board.db?lease=${lease}` }
  },
}

const nats: BoardKind = {
  name: "nats",
  open: async () => {
    const own = scope()
    const server = own.keep(await startNats())
    return {
      ...own,
      url: (lease = 30) => `${server.url}?lease=${lease}`,
      restartBroker: async () => {
        await server.kill()
        await server.restart()
      },
      // Frozen, and not killed: its connections stay open, and what was sent to it is answered in the end.
      outage: async (ms) => {
        server.pause()
        await sleep(ms)
        server.resume()
      },
    }
  },
}

const postgres: BoardKind = {
  name: "postgres",
  open: async () => {
    const own = scope()
    const server = own.keep(await startPostgres())
    return {
      ...own,
      url: (lease = 30) => `${server.url}?lease=${lease}`,
      restartBroker: async () => {
        await server.kill()
        await server.restart()
      },
      outage: async (ms) => {
        await server.kill()
        await sleep(ms)
        await server.restart()
      },
    }
  },
}

/** Boards on a PostgreSQL server that runs already, each in a schema of its own: to start a server takes a second. */
export const postgresBoards = (server: () => PostgresServer): BoardKind => ({
  name: "postgres",
  open: async () => {
    const namespace = generateId()
    return { ...scope(), url: (lease = 30) => `${server().url}?lease=${lease}&ns=${namespace}` }
  },
})

const redis: BoardKind = {
  name: "redis",
  open: async () => {
    const own = scope()
    const server = own.keep(await startRedis())
    return {
      ...own,
      url: (lease = 30) => `${server.url}?lease=${lease}`,
      restartBroker: async () => {
        await server.kill()
        await server.restart()
      },
      outage: async (ms) => {
        server.pause()
        await sleep(ms)
        server.resume()
      },
    }
  },
}

/** In a run that shares a broker with Celery there is redis alone. */
const isInterop = process.env["CALLBOARD_TEST_BOARDS"] === "redis"

export const sharedBoards: ReadonlyArray<BoardKind> = isInterop ? [redis] : [sqlite, nats]

/** Also the transports that are tested only where workers and brokers die. */
export const allBoards: ReadonlyArray<BoardKind> = isInterop ? [redis] : [...sharedBoards, postgres, redis]
