/** The settings in the URL of a Redis server. Options have the names that they have in kombu. */
import { readFileSync } from "node:fs"
import { checkUrlOptions } from "../../runtime/transport/checks.ts"
import { type ConnectOptions, TransportError } from "../../runtime/transport/mod.ts"
import type { Settings } from "./link.ts"

export interface RedisSettings {
  readonly client: Settings
  /** Prefix of every key and channel that Celery uses too: kombu's `global_keyprefix`. */
  readonly prefix: string
  /** Prefix of the keys that only Callboard uses. */
  readonly own: string
  /** How long a Celery worker may hold a message before it counts as lost, in milliseconds. */
  readonly visibilityTimeout: number
  /** Number of the database. The names of kombu's channels contain it. */
  readonly database: number
}

const TLS = ["ssl_cert_reqs", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_check_hostname"]
const OPTIONS = ["global_keyprefix", "visibility_timeout", "virtual_host", ...TLS]

/** The namespace whose queues have the names that a Celery application uses without a prefix. */
const DEFAULT_NAMESPACE = "callboard"

const invalid = (what: string): TransportError => new TransportError("invalid", `redis: ${what}`)

const decoded = (text: string, what: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    throw invalid(`the ${what} in the URL is not percent-encoded text`)
  }
}

const fileOf = (url: URL, option: string): Buffer | undefined => {
  const path = url.searchParams.get(option)
  if (path === null) return undefined
  try {
    return readFileSync(path)
  } catch (cause) {
    throw new TransportError("invalid", `redis: ${option}: ${String(cause)}`, { cause })
  }
}

const tlsOf = (url: URL) => {
  const [ca, cert, key] = ["ssl_ca_certs", "ssl_certfile", "ssl_keyfile"].map((option) => fileOf(url, option))
  const needs = (url.searchParams.get("ssl_cert_reqs") ?? "required").toLowerCase().replace("cert_", "")
  if (!["required", "optional", "none"].includes(needs)) {
    throw invalid(`ssl_cert_reqs must be required, optional or none, not ${JSON.stringify(needs)}`)
  }
  const isNameChecked = !/^(false|no|0)$/i.test(url.searchParams.get("ssl_check_hostname") ?? "")
  return {
    tls: true as const,
    rejectUnauthorized: needs !== "none",
    ...(isNameChecked ? {} : { checkServerIdentity: () => undefined }),
    ...(ca && { ca }),
    ...(cert && { cert }),
    ...(key && { key }),
  }
}

/** Reads the settings. Fails with `invalid` for a URL or an option that has no meaning here. */
export const settingsOf = (
  url: URL,
  { namespace, name, timeout }: Pick<ConnectOptions, "namespace" | "name" | "timeout">,
): RedisSettings => {
  checkUrlOptions(url, OPTIONS)
  const option = (key: string): string | undefined => url.searchParams.get(key) ?? undefined
  const isSocket = url.protocol === "redis+socket:" || url.protocol === "redis+unix:"
  const path = decoded(url.pathname, "path")
  const numbered = option("virtual_host") ?? (isSocket ? "0" : path.slice(1) || "0")
  const database = Number(numbered.replace(/^\//, ""))
  if (!Number.isInteger(database) || database < 0) {
    throw invalid(`the database must be a number, not ${JSON.stringify(numbered)}: redis://host:6379/0`)
  }
  const seconds = Number(option("visibility_timeout") ?? 3_600)
  if (!(seconds >= 1)) throw invalid("visibility_timeout must be a number of seconds, at least 1")
  const shared = { connectTimeout: timeout, reconnectStrategy: false as const }
  const socket = isSocket
    ? { ...shared, path, tls: false as const }
    : {
        ...shared,
        host: url.hostname.replace(/^\[(.*)\]$/, "$1") || "127.0.0.1",
        port: Number(url.port || 6379),
        ...(url.protocol === "rediss:" ? tlsOf(url) : {}),
      }
  const username = decoded(url.username, "user")
  const password = decoded(url.password, "password")
  const prefix = option("global_keyprefix") ?? (namespace === DEFAULT_NAMESPACE ? "" : `${namespace}:`)
  return {
    client: {
      socket,
      database,
      name: name.replace(/[^!-~]/g, "-"),
      ...(username === "" ? {} : { username }),
      ...(password === "" ? {} : { password }),
    },
    prefix,
    own: `${prefix}callboard:${namespace}:`,
    visibilityTimeout: seconds * 1_000,
    database,
  }
}
