/** A connection to PostgreSQL: several clients of the library `pg`, in pipeline mode. */
import { Socket } from "node:net"
import type { Client, ClientConfig, QueryResultRow } from "pg"
import { explainCode, type Link, type Reasons, type TransportError } from "../../runtime/transport/mod.ts"

export type Library = Pick<typeof import("pg"), "Client">

export interface PostgresLink extends Link {
  /** Opens one more client, so that a statement that waits for the disk does not delay others. */
  open(): Promise<void>
  /** Runs a statement on the least busy client. The server keeps the plan of a statement with a name. */
  ask<R extends QueryResultRow>(text: string, values?: Array<unknown>, name?: string): Promise<ReadonlyArray<R>>
}

export const SETTINGS = {
  synchronous_commit: "on",
  // Each list has an index in its order, and is a page of it. Of a table that has just grown the planner knows too little, and
  // would rather collect and sort what is there.
  enable_incremental_sort: "off",
  enable_bitmapscan: "off",
}

export const linkTo = (
  { Client }: Library,
  config: ClientConfig,
  schema: string,
  lost: (why: unknown) => void,
  notified: (payload: string) => void,
): PostgresLink => {
  const clients: Array<{ readonly client: Client; readonly socket: Socket; running: number }> = []
  return {
    open: async () => {
      // With its own socket the client can be closed although the server does not answer.
      const socket = new Socket()
      const client = new Client({ ...config, keepAlive: true, pipeline: true, stream: () => socket })
      clients.push({ client, socket, running: 0 })
      client.on("error", lost)
      client.on("end", () => lost(new Error("the server ended the connection")))
      client.on("notification", ({ payload = "" }) => notified(payload))
      await client.connect()
      const settings = Object.entries({ search_path: `"${schema}"`, ...SETTINGS })
      const set = "SELECT set_config(name, value, false) FROM unnest($1::text[], $2::text[]) AS setting(name, value)"
      await client.query(set, [settings.map(([name]) => name), settings.map(([, value]) => value)])
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

/** The first two characters of a code of the server are its class. */
const REASONS: Reasons = [
  // The statement may succeed later: out of resources, starting, read-only standby, conflict with another transaction.
  [/^(53|57|40|25006)/, "unavailable"],
  [/^(28|42501)/, "unauthorized"],
  [/^(3D000|22P05)/, "invalid"],
]

export const explain = (error: unknown): TransportError => {
  // Errors of the server have a severity. With one about the connection, or of a shutdown, the connection is lost.
  const code = error instanceof Error && "severity" in error && "code" in error ? String(error.code) : "08"
  return explainCode("postgres", error, /^(08|57P0)/.test(code) ? undefined : code, REASONS)
}
