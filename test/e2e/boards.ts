/** The transports of the end-to-end tests: all that several processes can share. */
import { setTimeout as sleep } from "node:timers/promises"
import { generateId } from "../../runtime/id.ts"
import { startNats } from "../support/servers/nats.ts"
import { type PostgresServer, startPostgres } from "../support/servers/postgres.ts"
import { temporaryFolder } from "../support/servers/process.ts"

export interface SharedBoard extends AsyncDisposable {
  /** Its URL, with a lease of so many seconds. */
  url(lease?: number): string
  /** A folder for the files of the test. */
  readonly folder: string
  /** Kills the broker and starts it again; absent where there is none. */
  restartBroker?(): Promise<void>
  /** The broker answers nothing for so many milliseconds; absent where there is none. */
  outage?(ms: number): Promise<void>
}

export interface BoardKind {
  readonly name: string
  open(): Promise<SharedBoard>
}

const sqlite: BoardKind = {
  name: "sqlite",
  open: async () => {
    const folder = temporaryFolder()
    return {
      url: (lease = 30) => `sqlite:${folder.path}/board.db?lease=${lease}`,
      folder: folder.path,
      [Symbol.asyncDispose]: async () => folder.remove(),
    }
  },
}

const nats: BoardKind = {
  name: "nats",
  open: async () => {
    const folder = temporaryFolder()
    const server = await startNats()
    return {
      url: (lease = 30) => `${server.url}?lease=${lease}`,
      folder: folder.path,
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
      [Symbol.asyncDispose]: async () => {
        await server.stop()
        folder.remove()
      },
    }
  },
}

const postgres: BoardKind = {
  name: "postgres",
  open: async () => {
    const folder = temporaryFolder()
    const server = await startPostgres()
    return {
      url: (lease = 30) => `${server.url}?lease=${lease}`,
      folder: folder.path,
      restartBroker: async () => {
        await server.kill()
        await server.restart()
      },
      outage: async (ms) => {
        await server.kill()
        await sleep(ms)
        await server.restart()
      },
      [Symbol.asyncDispose]: async () => {
        await server.stop()
        folder.remove()
      },
    }
  },
}

/** Boards on a PostgreSQL server that runs already, each in a schema of its own: to start a server takes a second. */
export const postgresBoards = (server: () => PostgresServer): BoardKind => ({
  name: "postgres",
  open: async () => {
    const folder = temporaryFolder()
    const namespace = generateId()
    return {
      url: (lease = 30) => `${server().url}?lease=${lease}&ns=${namespace}`,
      folder: folder.path,
      [Symbol.asyncDispose]: async () => folder.remove(),
    }
  },
})

export const sharedBoards: ReadonlyArray<BoardKind> = [sqlite, nats]

/** Also the transports that are tested only where workers and brokers die. */
export const allBoards: ReadonlyArray<BoardKind> = [...sharedBoards, postgres]
