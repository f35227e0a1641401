/**
 * A connection to Redis: one socket for commands and notices about changed lists, which needs RESP 3, and one for
 * announcements. The server cuts a socket with subscriptions when 32 MiB wait to be sent on it
 * (`client-output-buffer-limit pubsub`), so that no reply with large tasks may go over it.
 */
import type { RedisClientOptions } from "redis"
import { explainCode, type Link, type Reasons, type TransportError } from "../../runtime/transport/mod.ts"
import * as queueScripts from "./queue-scripts.ts"
import * as recordScripts from "./record-scripts.ts"
import type { Script } from "./scripts.ts"
import * as storeScripts from "./store-scripts.ts"

export type Library = Pick<typeof import("redis"), "createClient" | "RESP_TYPES" | "ErrorReply">
export type Settings = Pick<RedisClientOptions, "socket" | "username" | "password" | "database" | "name">

/** A reply of the server: stored values are bytes; states such as `OK` are text. */
export type Reply = Uint8Array | string | number | null | ReadonlyArray<Reply>
export type Argument = string | Uint8Array | number

export interface RedisLink extends Link {
  command(...args: ReadonlyArray<Argument>): Promise<Reply>
  /** Runs a script with the two prefixes and these arguments. */
  run(script: Script, ...args: ReadonlyArray<Argument>): Promise<Reply>
  /** Calls the listener with every announcement on a channel until the connection closes. */
  subscribe(channel: string, listener: (payload: Uint8Array) => void): Promise<void>
  /** Asks the server to announce the next change of each of these keys, whichever client makes it. */
  watch(keys: ReadonlyArray<string>): Promise<unknown>
  /** Resolves once the server has answered on both sockets. */
  ping(): Promise<unknown>
}

const SCRIPTS = [queueScripts, recordScripts, storeScripts].flatMap((scripts): Script[] => Object.values(scripts))

export interface LinkEvents {
  readonly lost: (why: unknown) => void
  /** Called when a watched key has changed; with `undefined` when any watched key may have changed. */
  readonly changed: (key: string | undefined) => void
}

const plain = (value: Argument): string | Buffer =>
  value instanceof Uint8Array ? Buffer.from(value.buffer, value.byteOffset, value.length) : String(value)

export const openLink = async (
  { createClient, RESP_TYPES, ErrorReply }: Library,
  settings: Settings,
  prefixes: readonly [shared: string, own: string],
  { lost, changed }: LinkEvents,
  signal: AbortSignal,
): Promise<RedisLink> => {
  const client = createClient({
    ...settings,
    RESP: 3,
    emitInvalidate: true,
    disableOfflineQueue: true,
    disableClientInfo: true,
    maintNotifications: "disabled",
    commandOptions: { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } },
  })
  const announcements = client.duplicate({ emitInvalidate: false })
  const both = [client, announcements]
  const close = () => {
    for (const each of both) if (each.isOpen) each.destroy()
  }
  signal.addEventListener("abort", close, { once: true })
  for (const each of both) {
    each.on("error", lost)
    each.on("end", () => lost(new Error("the server ended the connection")))
  }
  client.on("invalidate", (key: unknown) => changed(key === null ? undefined : String(key)))
  await Promise.all(both.map((each) => each.connect()))
  const command = (...args: ReadonlyArray<Argument>): Promise<Reply> => client.sendCommand<Reply>(args.map(plain))
  // The client library asks for notices about every key that it reads. Only notices about keys named by `watch` are needed.
  await command("CLIENT", "TRACKING", "OFF")
  await command("CLIENT", "TRACKING", "ON", "OPTIN")
  await Promise.all(SCRIPTS.map(({ source }) => command("SCRIPT", "LOAD", source)))
  return {
    close,
    command,
    run: async ({ sha, source }, ...args) => {
      try {
        return await command("EVALSHA", sha, 0, ...prefixes, ...args)
      } catch (error) {
        // An operator may have removed all scripts from the server.
        if (!(error instanceof ErrorReply) || !error.message.startsWith("NOSCRIPT")) throw error
        return command("EVAL", source, 0, ...prefixes, ...args)
      }
    },
    subscribe: (channel, listener) => announcements.subscribe(channel, listener, true),
    // Both commands are written in one turn, since CACHING applies to the next command alone.
    watch: (keys) => Promise.all([command("CLIENT", "CACHING", "YES"), command("EXISTS", ...keys)]),
    ping: () => Promise.all([command("PING"), announcements.ping()]),
  }
}

const REASONS: Reasons = [
  // Errors that may pass by themselves: a starting server, a script that takes long, a replica, a full disk or memory.
  [/^(LOADING|BUSY|TRYAGAIN|MASTERDOWN|READONLY|MISCONF|OOM|NOREPLICAS)$/, "unavailable"],
  [/^(NOAUTH|WRONGPASS|NOPERM)$/, "unauthorized"],
  [/^(MOVED|CROSSSLOT|CLUSTERDOWN)$/, "unsupported"],
  [/^DB$/, "invalid"],
]

export const explain =
  ({ ErrorReply }: Library) =>
  (error: unknown): TransportError => {
    // Errors of the server begin with a code; all others are about the connection.
    const code = error instanceof ErrorReply ? (/^(?:ERR )?([A-Z]+)\b/.exec(error.message)?.[1] ?? "ERR") : undefined
    return explainCode("redis", error, code, REASONS)
  }
