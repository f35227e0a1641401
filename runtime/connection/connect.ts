/** Finds the plugin for a URL, checks the options that all transports share, and connects. */
import { hostname } from "node:os"
import * as Result from "effect/Result"
import { compact } from "../protocol/compact.ts"
import { isObject } from "../protocol/guards.ts"
import type { KeepFailed } from "../protocol/outside.ts"
import { didYouMean } from "../protocol/suggest.ts"
import { beginning } from "../protocol/text.ts"
import { parseDuration } from "../protocol/time.ts"
import { type AnyPlugin, asTransport } from "../transport/job-store/plugin.ts"
import type { Transport } from "../transport/job-store/transport.ts"
import { type ConnectOptions, TransportError } from "../transport/mod.ts"
import { isNotInstalled, loadProblem } from "../transport/packages.ts"
import { type BuiltinScheme, builtin } from "./builtin.ts"
import { type Connection, connectionOf } from "./connection.ts"

/** Used where no transport is named: one SQLite file, which several processes of a machine may share. */
export const DEFAULT_TRANSPORT = "sqlite:.callboard/board.db"
/** What a namespace may be. */
export const NAMESPACE = /^[A-Za-z0-9_-]{1,64}$/

export const DEFAULT_NAMESPACE = "callboard"
export const DEFAULT_LEASE_MS = 30_000
export const DEFAULT_HEARTBEAT_MS = 20_000
export const DEFAULT_TIMEOUT_MS = 5_000

/** The shortest and the longest lease, in milliseconds. */
export const LEASE_RANGE = { min: 1_000, max: 86_400_000 } as const

/** The parsed settings of a connection to a transport. Parameters of the URL set the same options, and are overridden by these. */
export interface TransportSettings {
  /** Plugins of third parties, by scheme. */
  readonly transports?: Readonly<Record<string, AnyPlugin>>
  /** Prefixes everything on the broker. Defaults to the URL's `ns`, else `callboard`. */
  readonly namespace?: string
  /** Defaults to the URL's `lease`, else to {@link DEFAULT_LEASE_MS}. */
  readonly leaseMs?: number
  /** Defaults to {@link DEFAULT_TIMEOUT_MS}. */
  readonly timeoutMs?: number
  /** 0: off. Defaults to {@link DEFAULT_HEARTBEAT_MS}. */
  readonly heartbeatMs?: number
  /**
   * Milliseconds to wait before the n-th try to connect again, with n from 1. Defaults to the transport's own delays.
   */
  readonly reconnectDelay?: (tries: number) => number
  /** Name of this connection, which brokers show. Defaults to `callboard@<host>:<pid>`. */
  readonly name?: string
}

/** Length of a lease of this connection, in milliseconds: the setting, else the URL's `lease`, else 30 s. Fails with `invalid`. */
export const leaseOf = (target: string | object, settings: Pick<TransportSettings, "leaseMs">): number => {
  if (settings.leaseMs !== undefined) return settings.leaseMs
  const given = typeof target === "string" ? parseUrl(target)?.searchParams.get("lease") : undefined
  if (given === null || given === undefined) return DEFAULT_LEASE_MS
  const lease = parseDuration(given)
  if (Result.isFailure(lease)) throw invalid(`?lease: ${lease.failure.message}`)
  if (lease.success < LEASE_RANGE.min) throw invalid("?lease: must be at least 1 second")
  if (lease.success > LEASE_RANGE.max) throw invalid("?lease: must be at most 1 day")
  return lease.success
}

/**
 * Parses a transport URL. A broker's URL may name several hosts (`nats://a,b:4223`), which a `URL` cannot hold: the hosts
 * after the first become the query parameter `servers`. `undefined` for text that is not a URL.
 */
export const parseUrl = (text: string): URL | undefined => {
  const [, before, first, rest, behind] =
    /^([a-z][a-z0-9+.-]*:\/\/(?:[^/?#@]*@)?)([^/?#@,]+),([^/?#@]+)(.*)$/is.exec(text) ?? []
  const single = rest === undefined ? text : `${before}${first}${behind}`
  if (!URL.canParse(single)) return undefined
  const url = new URL(single)
  if (rest !== undefined) url.searchParams.append("servers", rest)
  return url
}

/** Whether the servers of a URL are a list with user and password before more than the first, which a URL cannot hold. */
const repeatsCredentials = (text: string): boolean => {
  const scheme = /^[a-z][a-z0-9+.-]*:\/\//i.exec(text)?.[0]
  if (scheme === undefined) return false
  const [hosts = ""] = text.slice(scheme.length).split(/[?#]/, 1)
  return hosts.slice(hosts.indexOf("@") + 1, hosts.lastIndexOf("@") + 1).includes(",")
}

const invalid = (message: string): TransportError => new TransportError("invalid", message)

/** A transport URL without user, password and options: safe to print. */
export const displayUrl = (text: string): string => {
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(text)?.[1]
  if (scheme === undefined) return text.includes("@") ? "(not a URL)" : beginning(text, 80)
  const plain = text.replace(/[?#].*$/s, "")
  const url = URL.canParse(text) ? new URL(text) : undefined
  // A path may have an @ in it. Elsewhere, what comes before it may be a password without the slashes of a URL.
  if (url?.host === "") return /^(?:sqlite|memory|[^@]*$)/i.test(plain) ? plain : `${scheme}:(hidden)`
  const shown = plain.replace(/\/\/[^/]*@/, "//")
  if (url !== undefined && !shown.includes("@")) return shown
  // A malformed URL: everything before the last @ may be part of a password.
  const from = text.indexOf("//") + 2
  const at = text.lastIndexOf("@")
  const bare = from >= 2 && at >= from ? text.slice(0, from) + text.slice(at + 1) : text
  return bare.replace(/[?#].*$/s, "")
}

/** Fails with `invalid` where user or password hold a `%` that begins no encoded byte. */
const checkCredentials = ({ username, password }: URL, target: string): void => {
  for (const [what, text] of Object.entries({ user: username, password })) {
    try {
      decodeURIComponent(text)
    } catch {
      throw invalid(`${displayUrl(target)}: the ${what} is not percent-encoded: write % as %25`)
    }
  }
}

/**
 * Connects to a transport by URL, or over a client object that the application holds (and keeps open).
 * Fails with a {@link TransportError}: `invalid` for a URL that cannot be read, `unsupported` for an unknown scheme,
 * naming the configuration entry and the package that would provide it.
 */
export const connectTransport = async (
  target: string | object,
  settings: TransportSettings = {},
): Promise<Transport> => {
  const options = (parameters: URLSearchParams): ConnectOptions => {
    for (const name of ["ns", "lease"])
      if (parameters.getAll(name).length > 1) throw invalid(`${name}: is given twice in the URL`)
    const namespace = settings.namespace ?? parameters.get("ns") ?? DEFAULT_NAMESPACE
    if (!NAMESPACE.test(namespace)) throw invalid(`?ns: must be 1 to 64 letters, digits, "_" or "-"`)
    return {
      namespace,
      lease: leaseOf(target, settings),
      heartbeat: settings.heartbeatMs ?? DEFAULT_HEARTBEAT_MS,
      ...compact({ reconnectDelay: settings.reconnectDelay }),
      name: settings.name ?? `callboard@${hostname()}:${process.pid}`,
      timeout: settings.timeoutMs ?? DEFAULT_TIMEOUT_MS,
    }
  }
  if (typeof target !== "string") {
    const adopted = await adopt(target, options(new URLSearchParams()), settings)
    if (adopted === undefined) {
      throw new TransportError(
        "unsupported",
        "this client object belongs to no known transport; give a URL as text, or a plugin under `transports`",
      )
    }
    return adopted
  }
  if (repeatsCredentials(target))
    throw invalid(
      `${displayUrl(target)}: write user and password once, before the first server: //user:password@host,host2`,
    )
  const url = parseUrl(target)
  if (url === undefined) {
    throw invalid(
      `${JSON.stringify(displayUrl(target))} is not a transport URL; try "sqlite:jobs.db" or "nats://localhost"`,
    )
  }
  checkCredentials(url, target)
  const plugin = await findPlugin(url.protocol.slice(0, -1), settings)
  const chosen = options(url.searchParams)
  return asTransport(await plugin.connect(url, chosen), chosen, ({ name }) =>
    connectRecords(name, url, chosen, settings),
  )
}

/** Connects the transport that `?records=` names. It keeps the records, the store, and the tasks that are due later. */
const connectRecords = async (queue: string, url: URL, options: ConnectOptions, settings: TransportSettings) => {
  const given = url.searchParams.get("records")
  const place = given === null ? undefined : parseUrl(given)
  if (given === null || place === undefined) {
    const why =
      given === null ? "it does not store records" : `records: ${JSON.stringify(displayUrl(given))} is not a URL`
    throw invalid(`${queue}: ${why}; add a transport that does: ?records=sqlite:jobs.db`)
  }
  const shared = ["ns", "lease"].find((name) => place.searchParams.has(name))
  if (shared !== undefined)
    throw invalid(
      `${queue}: records: ${shared} applies to both queues and records: set it next to \`records\`, not in its URL`,
    )
  return (await findPlugin(place.protocol.slice(0, -1), settings)).connect(place, options)
}

/** {@link connectTransport}, with all parts that client and worker need. */
export const openConnection = async (
  target: string | object,
  settings: TransportSettings = {},
  keepFailed?: KeepFailed,
): Promise<Connection> => connectionOf(await connectTransport(target, settings), keepFailed)

/** Name of the package in which the transport of a scheme is looked for if none is built in or configured. */
const packageOf = (scheme: string): string => `callboard-transport-${scheme}`

/** Whether a transport of this scheme is installed as a package of its own. It is not loaded. */
export const isInstalled = (scheme: string): boolean => {
  try {
    import.meta.resolve(packageOf(scheme))
    return true
  } catch {
    return false
  }
}

const isBuiltin = (scheme: string): scheme is BuiltinScheme => Object.hasOwn(builtin, scheme)

const findPlugin = async (scheme: string, settings: TransportSettings): Promise<AnyPlugin> => {
  const configured = settings.transports !== undefined && Object.hasOwn(settings.transports, scheme)
  if (configured && settings.transports?.[scheme] !== undefined) {
    const plugin: unknown = settings.transports[scheme]
    if (isPlugin(plugin)) return plugin
    throw invalid(`transports.${scheme}: must be a transport plugin, an object with \`schemes\` and \`connect\``)
  }
  if (isBuiltin(scheme)) return builtin[scheme]()
  const packageName = packageOf(scheme)
  let found: unknown
  try {
    // No bundler can include a package whose name is known only now, and none must warn of that.
    found = await import(/* webpackIgnore: true */ /* turbopackIgnore: true */ /* @vite-ignore */ packageName)
  } catch (cause) {
    if (!isNotInstalled(packageName, cause))
      throw new TransportError("unsupported", `${scheme}: ${loadProblem(packageName, cause)}`, { cause })
    if (/^https?$/.test(scheme)) {
      const message = "http: is the address of a service, not a transport: use connectHttp() of callboard/client"
      throw new TransportError("unsupported", message, { cause })
    }
    throw new TransportError(
      "unsupported",
      `no transport for ${scheme}:${didYouMean(scheme, Object.keys({ ...builtin, ...settings.transports }))} — add one under transports.${scheme} in callboard.config.ts, or install ${packageName} (known: ${Object.keys(builtin).join(", ")})`,
      { cause },
    )
  }
  const plugin = pluginOf(found)
  if (plugin === undefined) {
    throw new TransportError(
      "unsupported",
      `${packageName} exports no plugin: it must export \`plugin\`, or a default, with \`schemes\` and \`connect\``,
    )
  }
  return plugin
}

export const isPlugin = (value: unknown): value is AnyPlugin =>
  isObject(value) &&
  "schemes" in value &&
  Array.isArray(value.schemes) &&
  "connect" in value &&
  typeof value.connect === "function"

const pluginOf = (module: unknown): AnyPlugin | undefined => {
  if (!isObject(module)) return undefined
  for (const name of ["plugin", "default"]) {
    const candidate: unknown = Reflect.get(module, name)
    if (isPlugin(candidate)) return candidate
  }
  return undefined
}

const adopt = async (
  client: object,
  options: ConnectOptions,
  settings: TransportSettings,
): Promise<Transport | undefined> => {
  const plugins: Array<AnyPlugin> = [...Object.values(settings.transports ?? {})]
  for (const load of new Set(Object.values(builtin))) plugins.push(await load())
  for (const plugin of plugins) {
    const adopted = "adopt" in plugin ? plugin.adopt?.(client, options) : undefined
    if (adopted !== undefined) return asTransport(await adopted, options)
  }
  return undefined
}
