/** Empty boards, one for each run, and what is promised of a job that one of them has accepted. */
import { join } from "node:path"
import { startNats } from "../../support/servers/nats.ts"
import { temporaryFolder } from "../../support/servers/process.ts"

export interface Board extends AsyncDisposable {
  readonly url: string
  /** The process of the broker. */
  readonly broker?: number
}

export interface BoardKind {
  readonly name: string
  readonly durability: string
  open(): Promise<Board>
}

export const sqlite: BoardKind = {
  name: "sqlite",
  durability: "on the disk (fsync)",
  open: async () => {
    const folder = temporaryFolder()
    return { url: `sqlite:${join(folder.path, "board.db")}`, [Symbol.asyncDispose]: async () => folder.remove() }
  },
}

export const memory: BoardKind = {
  name: "memory",
  durability: "in the process",
  open: async () => ({ url: "memory:", [Symbol.asyncDispose]: async () => undefined }),
}

export const nats: BoardKind = {
  name: "nats",
  durability: "in the server's file, fsync every 2 min",
  open: async () => {
    const server = await startNats()
    return { url: server.url, broker: server.pid, [Symbol.asyncDispose]: () => server.stop() }
  },
}
