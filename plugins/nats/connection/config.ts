/** Reads a `nats:` URL. Unknown options are errors. Credentials are never shown. */
import { readFileSync } from "node:fs"
import {
  type Authenticator,
  credsAuthenticator,
  nkeyAuthenticator,
  type TlsOptions,
  tokenAuthenticator,
  usernamePasswordAuthenticator,
} from "nats"
import { compact } from "../../../runtime/protocol/compact.ts"
import { decoder, encoder } from "../../../runtime/protocol/text.ts"
import { unknownUrlOption } from "../../../runtime/transport/checks.ts"
import { TransportError } from "../../../runtime/transport/mod.ts"
import { errorText } from "./answers.ts"

/**
 * How the streams are created. An option that is absent keeps what existing streams have; for new ones its default
 * holds.
 */
export interface StreamOptions {
  /**
   * How many servers hold each stream: 1, 3 or 5. Raised on streams that have fewer; a number below theirs is refused.
   * Defaults to 1, or what the streams have.
   */
  readonly replicas?: number
  /**
   * Where the server keeps the streams. Cannot be changed later. `memory` does not survive a restart of the server.
   * Defaults to `file`.
   */
  readonly storage?: "file" | "memory"
  /**
   * How many bands the priorities 0–9 fall into, besides the front: 1–10. A queue has one consumer per band, so that
   * more bands cost the server more. Cannot be changed later. Defaults to 3 (0–3, 4–6, 7–9), or what the streams have.
   */
  readonly bands?: number
  /**
   * Most bytes of tasks that wait, in all queues; more are refused, so that records and the store keep their room on a
   * server that has a limit. Kept with the streams, for all that submit. Defaults to none, or what the streams have.
   */
  readonly maxBacklog?: number
  /** Accepts servers from 2.12.0 on although they have known faults that can lose tasks. Defaults to false. */
  readonly allowOldServer: boolean
  /** JetStream domain, for servers behind a leaf node. Defaults to none. */
  readonly domain?: string
}

export interface Config extends StreamOptions {
  /** `host:port` of each server. */
  readonly servers: ReadonlyArray<string>
  readonly tls?: TlsOptions
  readonly authenticators: ReadonlyArray<Authenticator>
}

/** Options of a URL that the runtime reads itself, for every transport. */
const SHARED = new Set(["ns", "lease", "records", "name", "timeout"])

const KNOWN = [
  "servers",
  "token",
  "tokenFile",
  "creds",
  "nkey",
  "tlsCa",
  "tlsCert",
  "tlsKey",
  "tlsFirst",
  "replicas",
  "storage",
  "bands",
  "maxBacklog",
  "allowOldServer",
  "domain",
] as const

type Option = (typeof KNOWN)[number]

/**
 * Reads a URL: `nats://[user:password@]host[:port][,host…][?option=…]`. A user without a password is a token. The
 * scheme `tls:` requires TLS. Fails with `invalid`.
 */
export const readConfig = (url: URL): Config => {
  const options = optionsOf(url.searchParams)
  const tls = tlsOf(url, options)
  const streams = streamOptionsOf(options)
  return {
    ...streams,
    servers: serversOf(url, options),
    authenticators: authenticatorsOf(url, options),
    ...compact({ tls }),
  }
}

const invalid = (message: string): TransportError => new TransportError("invalid", message)

const isOption = (name: string): name is Option => KNOWN.some((known) => known === name)

const optionsOf = (parameters: URLSearchParams): ReadonlyMap<Option, string> => {
  const options = new Map<Option, string>()
  for (const [name, value] of parameters) {
    if (SHARED.has(name)) continue
    if (!isOption(name)) throw unknownUrlOption(name, "nats:", [...KNOWN, "ns", "lease"])
    options.set(name, value)
  }
  return options
}

const flag = (options: ReadonlyMap<Option, string>, name: Option): boolean => {
  const value = options.get(name)
  if (value === undefined || value === "false" || value === "0") return false
  if (value === "" || value === "true" || value === "1") return true
  throw invalid(`nats: ${name} must be true or false`)
}

const wholeNumber = (
  options: ReadonlyMap<Option, string>,
  name: Option,
  low: number,
  high: number,
): number | undefined => {
  const value = options.get(name)
  if (value === undefined) return undefined
  const number = Number(value)
  if (/^\d{1,3}$/.test(value) && number >= low && number <= high) return number
  throw invalid(`nats: ${name} must be a whole number from ${low} to ${high}`)
}

const UNITS: Readonly<Record<string, number>> = { "": 1, kb: 1e3, mb: 1e6, gb: 1e9, tb: 1e12 }

const size = (options: ReadonlyMap<Option, string>, name: Option): number | undefined => {
  const value = options.get(name)
  if (value === undefined) return undefined
  const [, digits, unit = ""] = /^(\d{1,15})([kmgt]b)?$/i.exec(value) ?? []
  const bytes = Number(digits) * (UNITS[unit.toLowerCase()] ?? 1)
  if (bytes >= 1e6 && Number.isSafeInteger(bytes)) return bytes
  throw invalid(`nats: ${name} must be a size of at least 1MB, such as 500MB or 8GB`)
}

const streamOptionsOf = (options: ReadonlyMap<Option, string>): StreamOptions => {
  const replicas = wholeNumber(options, "replicas", 1, 5)
  const bands = wholeNumber(options, "bands", 1, 10)
  const maxBacklog = size(options, "maxBacklog")
  const storage = options.get("storage")
  const domain = options.get("domain")
  if (storage !== undefined && storage !== "file" && storage !== "memory")
    throw invalid("nats: storage must be file or memory")
  if (domain !== undefined && !/^[A-Za-z0-9_-]+$/.test(domain)) throw invalid("nats: domain must be a single word")
  return {
    allowOldServer: flag(options, "allowOldServer"),
    ...compact({ replicas, bands, maxBacklog, storage, domain }),
  }
}

const serversOf = (url: URL, options: ReadonlyMap<Option, string>): ReadonlyArray<string> => {
  const more = options.get("servers")?.split(",") ?? []
  const named = url.hostname === "" ? [] : url.hostname.split(",").map((host) => `${host}:${url.port || "4222"}`)
  const servers = [...named, ...more.map((server) => (/:\d+$/.test(server) ? server : `${server}:4222`))]
  for (const server of servers) {
    if (server.includes("@")) throw invalid("nats: servers: write user and password once, before the first server")
    if (!/^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):\d{1,5}$/.test(server)) throw invalid(`nats: not a server: "${server}"`)
  }
  return servers.length > 0 ? servers : ["127.0.0.1:4222"]
}

const fileOf = (options: ReadonlyMap<Option, string>, name: Option): Uint8Array | undefined => {
  const path = options.get(name)
  if (path === undefined) return undefined
  try {
    return readFileSync(path)
  } catch (error) {
    throw invalid(`nats: the file of ${name} cannot be read: ${errorText(error)}`)
  }
}

const authenticatorsOf = (url: URL, options: ReadonlyMap<Option, string>): ReadonlyArray<Authenticator> => {
  const found: Array<Authenticator> = []
  const user = decodeURIComponent(url.username)
  const password = decodeURIComponent(url.password)
  const creds = fileOf(options, "creds")
  const nkey = fileOf(options, "nkey")
  const token = options.get("token") ?? textIn(fileOf(options, "tokenFile")) ?? (password === "" ? user : "")
  if (user !== "" && password !== "") found.push(usernamePasswordAuthenticator(user, password))
  if (token !== "") found.push(tokenAuthenticator(token))
  if (nkey !== undefined) found.push(signing("nkey", "a seed (SU…)", nkeyAuthenticator(encoder.encode(textIn(nkey)))))
  if (creds !== undefined) found.push(signing("creds", "a user's JWT and seed", credsAuthenticator(creds)))
  return found
}

/** An authenticator that signs with the key in a file. Fails with `invalid` where the file holds none. */
const signing = (option: Option, what: string, authenticator: Authenticator): Authenticator => {
  try {
    authenticator("anything to sign")
    return authenticator
  } catch {
    // What the client throws may show a part of the file.
    throw invalid(`nats: the file of ${option} does not contain ${what}`)
  }
}

const textIn = (bytes: Uint8Array | undefined): string | undefined =>
  bytes === undefined ? undefined : decoder.decode(bytes).trim()

const tlsOf = (url: URL, options: ReadonlyMap<Option, string>): TlsOptions | undefined => {
  const ca = textIn(fileOf(options, "tlsCa"))
  const cert = textIn(fileOf(options, "tlsCert"))
  const key = textIn(fileOf(options, "tlsKey"))
  const first = flag(options, "tlsFirst")
  if ((cert === undefined) !== (key === undefined)) throw invalid("nats: tlsCert and tlsKey must be set together")
  if (url.protocol !== "tls:" && ca === undefined && cert === undefined && !first) return undefined
  return {
    ...compact({ ca }),
    ...(cert === undefined || key === undefined ? {} : { cert, key }),
    ...(first ? { handshakeFirst: true } : {}),
  }
}
