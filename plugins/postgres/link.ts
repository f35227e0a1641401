/** A connection to PostgreSQL: clients of the library `pg`, which send without waiting for the answer before. */
import { Socket } from "node:net"
import type { Client, ClientConfig, QueryResultRow } from "pg"
import { type Link, TransportError, type TransportReason } from "../../runtime/transport/mod.ts"

export type Library = Pick<typeof import("pg"), "Client">

export interface PostgresLink extends Link {
  /** Opens one more client: a batch that waits for the disk does not hold up another one. */
  open(): Promise<void>
  /** Runs one statement. The server keeps the plan of one with a name. */
  ask<R extends QueryResultRow>(text: string, values?: Array<unknown>, name?: string): Promise<ReadonlyArray<R>>
}

export const linkTo = (
  { Client }: Library,
  config: ClientConfig,
  schema: string,
  lost: (why: unknown) => void,
  notified: (channel: string, payload: string) => void,
): PostgresLink => {
  const clients: Array<{ readonly client: Client; readonly socket: Socket; running: number }> = []
  return {
    open: async () => {
      // A socket of our own can be ended when the server is silent.
      const socket = new Socket()
      const client = new Client({ ...config, keepAlive: true, pipeline: true, stream: () => socket })
      clients.push({ client, socket, running: 0 })
      client.on("error", lost)
      client.on("end", () => lost(new Error("the server ended the connection")))
      client.on("notification", ({ channel, payload = "" }) => notified(channel, payload))
      await client.connect()
      const settings = "set_config('search_path', $1, false), set_config('synchronous_commit', 'on', false)"
      await client.query(`SELECT ${settings}`, [`"${schema}"`])
    },
    ask: async <R extends QueryResultRow>(text: string, values?: Array<unknown>, name?: string) => {
      const free = clients.reduce((one, other) => (other.running < one.running ? other : one))
      free.running++
      const answer = free.client.query<R>({ text, ...(values && { values }), ...(name && { name }) })
      return (await answer.finally(() => free.running--)).rows
    },
    close: () => {
      for (const { socket } of clients) socket.destroy()
    },
  }
}

/** By the code of the server, in which the first two characters are a class. What is not here is a fault of this plugin. */
const REASONS: ReadonlyArray<readonly [RegExp, TransportReason]> = [
  // Not now: it is full, stops or starts, is a standby, or another transaction was in the way.
  [/^(53|57|40|25006)/, "unavailable"],
  [/^(28|42501)/, "unauthorized"],
  [/^(3D000|22P05)/, "invalid"],
]

export const explain = (error: unknown): TransportError => {
  if (!(error instanceof Error) || error instanceof TypeError || error instanceof RangeError) {
    return new TransportError("internal", `postgres: ${String(error)}`, { cause: error })
  }
  const code = "severity" in error && "code" in error ? String(error.code) : undefined
  // Where the server said nothing, or that it ends, the connection was lost: what was asked may have happened.
  const outcome = code === undefined || /^(08|57P0)/.test(code) ? "unknown" : "none"
  const [, reason = "internal"] = REASONS.find(([pattern]) => pattern.test(code ?? "57")) ?? []
  return new TransportError(reason, `postgres: ${error.message}`, { outcome, cause: error })
}
