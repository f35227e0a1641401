/**
 * The Hono application: the table of routes behind one door. It can be served by itself, or mounted in another
 * application: `app.route("/jobs", http(client, { tokens }))`.
 */
import type { Hono } from "hono"
import type { Client } from "../client/client.ts"
import { CallboardError } from "../errors.ts"
import { hostLog, type Log, type LogSink, makeLog } from "../log/log.ts"
import type { MetricsText } from "../metrics/metrics.ts"
import { DEFAULTS } from "../options/defaults.ts"
import { TransportError } from "../transport/mod.ts"
import type { Token } from "./access.ts"
import { honoApp } from "./hono-app.ts"
import { KEEP_ALIVE_MS } from "./limits.ts"
import { openApiOf } from "./openapi.ts"
import type { OpenApi } from "./openapi-document.ts"
import type { HttpContext } from "./route.ts"
import { routes } from "./routes.ts"

export interface HttpAppOptions {
  /** Who may do what. Without any, say `loopbackOnly: true` or `open: true`. */
  readonly tokens?: ReadonlyArray<Token>
  /**
   * Without tokens: everyone who reaches the application may do everything, except pages of other origins. For an
   * application that lets in by itself only those who may. Defaults to false.
   */
  readonly open?: boolean
  /** Largest task, in bytes; an array may have 16 times as many. The transport may allow less. Defaults to 1 MiB. */
  readonly maxBody?: number
  /** What `/readyz` says, besides whether the transport is within reach. Defaults to yes. */
  readonly ready?: () => boolean
  /** Answer only requests that name this machine as their host: for an application that listens on loopback. Defaults to false. */
  readonly loopbackOnly?: boolean
  /** Ends waits and streams when it fires, and refuses what comes after. */
  readonly closing?: AbortSignal
  /** How often a stream on which nothing happens shows that it lives, in milliseconds. Defaults to 15 seconds. */
  readonly keepAliveMs?: number
  /** Where faults are logged. Defaults to standard output. */
  readonly log?: Log | LogSink
  /** What `/metrics` answers with; false: nothing. Defaults to what can be told of the board: give a service's own `metrics` for the rest. */
  readonly metrics?: MetricsText | false
}

/** Loads what it needs only now, and not with the package. */
const boardMetrics = (client: Client): MetricsText => {
  const loaded = import("../metrics/metrics.ts").then(({ Metrics }) => {
    const metrics = new Metrics()
    metrics.follow(client)
    return metrics
  })
  return { text: async () => (await loaded).text() }
}

/**
 * An application over a client, which stays the caller's. Fails with `invalid-input` when a token cannot be used, and
 * where there is none and neither `loopbackOnly` nor `open` says that this is meant.
 */
export const http = (client: Client, options: HttpAppOptions = {}): Hono => {
  const { tokens = [], loopbackOnly = false, open = false } = options
  if (tokens.length === 0 && !loopbackOnly && !open)
    throw new CallboardError("invalid-input", UNGUARDED, { field: "tokens" })
  const attachable = attachableHttp({ ...options, metrics: options.metrics ?? boardMetrics(client) })
  attachable.attach(client)
  return attachable.app
}

/** An application whose client is still to come. */
export interface AttachableHttp {
  readonly app: Hono
  /** From now on it answers for the board of this client; before, that the transport cannot be reached. */
  attach(client: Client): void
}

/** {@link http}, before there is a client. Without `metrics` it tells none. */
export const attachableHttp = (options: HttpAppOptions): AttachableHttp => {
  const { tokens = [], loopbackOnly = false, ready = () => true, metrics = false } = options
  const { maxBody = DEFAULTS.maxBody } = options
  let client: Client | undefined
  let outage: string | undefined = CONNECTING
  const documents = new Map<string, OpenApi>()
  const context: HttpContext = {
    get client() {
      if (client === undefined) throw new TransportError("unavailable", CONNECTING)
      return client
    },
    get maxBody() {
      return Math.min(maxBody, client?.connection.transport.capabilities.maxTask ?? maxBody)
    },
    log: (options.log === undefined ? makeLog() : hostLog(options.log)).with({ logger: "callboard.http" }),
    keepAliveMs: options.keepAliveMs ?? KEEP_ALIVE_MS,
    unready: () => outage ?? (ready() ? undefined : "this process does not consume now"),
    outage: () => outage,
    metrics: metrics === false ? undefined : metrics,
    closing: options.closing ?? new AbortController().signal,
    describe: (base) => {
      const known = documents.get(base)
      if (known !== undefined) return known
      const made = openApiOf(routes, base, tokens.length > 0)
      // Bases are where applications mount this one, unless a pattern makes them endless.
      if (documents.size < 10) documents.set(base, made)
      return made
    },
  }
  const unknownPath = "there is no such route; GET / shows those that there are"
  return {
    app: honoApp(context, { routes, tokens, loopbackOnly, unknownPath }),
    attach: (attached) => {
      client = attached
      outage = undefined
      attached.connection.transport.onStatus((status, why) => {
        outage = status === "connected" ? undefined : (why?.message ?? "this service has lost its connection")
      })
    },
  }
}

const UNGUARDED =
  "http: without tokens everyone who reaches it may do everything; give `tokens`, or say `loopbackOnly: true` (answers to localhost only) or `open: true` (your application decides who gets here)"

const CONNECTING = "this process has not reached its transport yet"
