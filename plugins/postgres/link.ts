/** A connection to PostgreSQL: a few clients of the library `pg`, of which the first one listens. */
import { Socket } from "node:net"
import type { Client, ClientConfig, QueryResultRow } from "pg"
import type { Link } from "../../runtime/transport/base-driver.ts"
import { TransportError, type TransportReason } from "../../runtime/transport/mod.ts"
import { type Ask, prepare } from "./schema.ts"

export type Library = Pick<typeof import("pg"), "Client">

export interface PostgresLink extends Link {
  readonly ask: Ask
}

/** A client is answered in the order in which it asks: a slow list must not hold up a commit. */
const CLIENTS = 2
/** How long a goodbye may take, in milliseconds. */
const GOODBYE_MS = 500

export const openLink = async (
  { Client }: Library,
  config: ClientConfig,
  schema: string,
  lost: (why: unknown) => void,
  notified: (channel: string, payload: string) => void,
  signal: AbortSignal,
): Promise<PostgresLink> => {
  const clients: Array<{ readonly client: Client; readonly socket: Socket; running: number }> = []
  const close = async () => {
    const goodbyes = Promise.all(clients.map(({ client }) => client.end().catch(() => undefined)))
    await Promise.race([goodbyes, new Promise((resolve) => setTimeout(resolve, GOODBYE_MS).unref())])
    for (const { socket } of clients) socket.destroy()
  }
  const open = async () => {
    // A socket of our own can be ended when the server is silent.
    const socket = new Socket()
    const client = new Client({ ...config, pipeline: true, stream: () => socket })
    clients.push({ client, socket, running: 0 })
    client.on("error", lost)
    client.on("end", () => lost(new Error("the server ended the connection")))
    client.on("notification", ({ channel, payload = "" }) => notified(channel, payload))
    await client.connect()
    const settings = "set_config('search_path', $1, false), set_config('synchronous_commit', 'on', false)"
    await client.query(`SELECT ${settings}`, [`"${schema}"`])
  }
  const ask: Ask = async <R extends QueryResultRow>(text: string, values?: ReadonlyArray<unknown>, name?: string) => {
    const free = clients.reduce((one, other) => (other.running < one.running ? other : one))
    free.running++
    try {
      const statement = { text, ...(values && { values: [...values] }), ...(name && { name }) }
      return (await free.client.query<R>(statement)).rows
    } finally {
      free.running--
    }
  }
  signal.addEventListener("abort", () => void close(), { once: true })
  try {
    await open()
    await prepare(ask, schema)
    for (const kind of ["queue", "job", "topic"]) await ask(`LISTEN "${schema}:${kind}"`)
    await Promise.all(Array.from({ length: CLIENTS - 1 }, open))
  } catch (error) {
    await close()
    throw error
  }
  return { ask, close }
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
