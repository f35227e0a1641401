/**
 * The Hono application with all routes of Callboard. It can be served by itself, or mounted in another application:
 * `app.route("/jobs", http(client, { tokens }))`.
 */
import * as Schema from "effect/Schema"
import type { Hono } from "hono"
import type { Client } from "../client/client.ts"
import type { Token } from "../config/scopes.ts"
import { DEFAULTS, type HttpOptions, type OptionsFor, TABLE } from "../config/table.ts"
import { CallboardError } from "../errors.ts"
import { AnyLog, hostLog, type Log, type LogSink, makeLog } from "../log/log.ts"
import type { MetricsText } from "../metrics/metrics.ts"
import { AnyFunction, AnySignal, type Given, optionsChecker } from "../options/check.ts"
import { type DurationInput, milliseconds } from "../options/duration.ts"
import { duration } from "../options/duration-field.ts"
import { whole } from "../options/fields.ts"
import { isObject } from "../protocol/guards.ts"
import { TransportError } from "../transport/mod.ts"
import { boardRoutes } from "./boards.ts"
import { controlRoutes, revocationRoutes } from "./control.ts"
import { descriptionRoutes } from "./description-routes.ts"
import { eventRoutes } from "./events.ts"
import { groupRoutes } from "./groups.ts"
import { honoApp } from "./hono-app.ts"
import { jobRoutes, whyRoutes } from "./job.ts"
import { deadRoutes, jobsRoutes } from "./jobs.ts"
import { type Bounds, Budget, KEEP_ALIVE_MS } from "./limits.ts"
import { limitRoutes } from "./method-limits.ts"
import { openApiOf } from "./openapi.ts"
import type { HttpContext, OpenApi, Route } from "./route.ts"
import { scheduleRoutes } from "./schedules.ts"
import { healthRoutes, metricsRoutes, serviceRoutes } from "./service-routes.ts"
import { statisticsRoutes } from "./statistics.ts"
import { submitRoutes } from "./submit.ts"

export interface HttpAppOptions
  extends Pick<HttpOptions, "linkSecret" | "origins" | "page">,
    Pick<OptionsFor<"serve">, "maxBody"> {
  /** Tokens, each with its scopes. Without any, say `loopbackOnly: true` or `open: true`. Defaults to none. */
  readonly tokens?: ReadonlyArray<Token> | undefined
  /**
   * Without tokens: every request that reaches the application may do everything, except from pages of other origins. For
   * an application that authenticates requests before they get here. Defaults to false.
   */
  readonly open?: boolean | undefined
  /**
   * Whether `/readyz` says yes while the transport is within reach, or why not; without the transport it says no.
   * Defaults to true.
   */
  readonly ready?: (() => boolean | string) | undefined
  /**
   * Answer only requests that name this machine as their host: for an application that listens on loopback. Defaults to
   * false.
   */
  readonly loopbackOnly?: boolean | undefined
  /** When this signal fires, waits and streams end, and later requests are refused with 503. Defaults to never. */
  readonly closing?: AbortSignal | undefined
  /**
   * How often an idle stream of events sends a comment, so that proxies keep it open, 1 ms at least. Defaults to 5
   * seconds.
   */
  readonly keepAlive?: DurationInput | undefined
  /**
   * What requests may hold at a time. Defaults to 64 MiB of bodies, each within 30 seconds, and to 1,000 streams of events, 100
   * for each token.
   */
  readonly bounds?: Given<Partial<Bounds>> | undefined
  /** Where faults are logged. Defaults to standard output. */
  readonly log?: Log | LogSink | undefined
  /**
   * What `/metrics` answers with; false: 404. Defaults to the metrics of queues and connection; give a service's own
   * `metrics` to add those of its worker.
   */
  readonly metrics?: MetricsText | false | undefined
}

/**
 * Metrics of the queues and the connection. prom-client is loaded here, so that an application without metrics never
 * loads it.
 */
const boardMetrics = (client: Client): MetricsText => {
  const loaded = import("../metrics/metrics.ts").then(({ Metrics }) => {
    const metrics = new Metrics()
    metrics.follow(client)
    return metrics
  })
  return { text: async () => (await loaded).text() }
}

const isMetrics = (value: unknown): value is MetricsText | false =>
  value === false || (isObject(value) && "text" in value && typeof value.text === "function")

const count = Schema.optionalKey(whole({ min: 1 }))
const time = Schema.optionalKey(duration({ min: 1 }))

const fields = {
  // Each token is checked where its digest is made.
  tokens: Schema.optionalKey(Schema.Array(Schema.Unknown)),
  open: Schema.optionalKey(Schema.Boolean),
  linkSecret: Schema.optionalKey(TABLE.http.fields.linkSecret.code),
  origins: Schema.optionalKey(TABLE.http.fields.origins.code),
  maxBody: Schema.optionalKey(TABLE.maxBody.code),
  ready: Schema.optionalKey(AnyFunction),
  loopbackOnly: Schema.optionalKey(Schema.Boolean),
  closing: Schema.optionalKey(AnySignal),
  keepAlive: time,
  bounds: Schema.optionalKey(
    Schema.Struct({
      bodyBytes: count,
      bodyTimeout: time,
      streams: count,
      streamsPerToken: count,
    } satisfies Readonly<Record<keyof Bounds, Schema.Top>>),
  ),
  log: Schema.optionalKey(AnyLog),
  metrics: Schema.optionalKey(
    Schema.declare(isMetrics, { expected: "false, or metrics with a method `text`, such as those of a service" }),
  ),
  page: Schema.optionalKey(TABLE.http.fields.page.code),
} satisfies Readonly<Record<keyof HttpAppOptions, Schema.Top>>
const checkHttpOptions = optionsChecker(fields, "http()")

/**
 * The HTTP interface over a client, as a Hono application. Closing the client is left to the caller. Fails with
 * `CallboardError` `invalid-input` for a wrong option, when a token cannot be used, and without tokens unless `loopbackOnly` or
 * `open` says that this is meant.
 *
 * @example
 * ```ts
 * const app = new Hono()
 * app.route("/jobs", http(client, { tokens: [{ token: process.env.TOKEN ?? "", scopes: ["submit", "read"] }] }))
 * ```
 */
export const http = (client: Client, options: HttpAppOptions = {}): Hono => {
  checkHttpOptions(options)
  const { tokens = [], loopbackOnly = false, open = false } = options
  if (tokens.length === 0 && !loopbackOnly && !open)
    throw new CallboardError("invalid-input", UNGUARDED, { field: "tokens" })
  const attachable = attachableHttp({ ...options, metrics: options.metrics ?? boardMetrics(client) })
  attachable.attach(client)
  return attachable.app
}

/** An application that listens before its client has connected. */
interface AttachableHttp {
  readonly app: Hono
  /** From now on requests are served by this client. Until then each route that needs the transport answers 503. */
  attach(client: Client): void
}

const whyUnready = (ready: boolean | string): string | undefined =>
  typeof ready === "string" ? ready : ready ? undefined : "this process is not consuming now"

/** {@link http} without a client yet. Without `metrics`, `/metrics` answers 404. */
export const attachableHttp = (options: HttpAppOptions): AttachableHttp => {
  const { tokens = [], origins = [], loopbackOnly = false, ready = () => true, metrics = false, page = true } = options
  const { maxBody = DEFAULTS.maxBody, linkSecret } = options
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
    keepAliveMs: options.keepAlive === undefined ? KEEP_ALIVE_MS : milliseconds("keepAlive", options.keepAlive),
    budget: new Budget(options.bounds),
    unready: () => outage ?? whyUnready(ready()),
    outage: () => outage,
    metrics: metrics === false ? undefined : metrics,
    linkSecret,
    closing: options.closing ?? new AbortController().signal,
    features: [...new Set(routes.flatMap(({ path }) => /^\/v1\/([a-z]+)/.exec(path)?.[1] ?? []))],
    describe: (base) => {
      const known = documents.get(base)
      if (known !== undefined) return known
      const made = openApiOf(routes, base, tokens.length > 0)
      // There is one base per place where the application is mounted, unless it is mounted under a pattern: so few are
      // kept.
      if (documents.size < 10) documents.set(base, made)
      return made
    },
  }
  const unknownPath = "no such route; GET / lists all routes"
  return {
    app: honoApp(context, { routes, tokens, linkSecret, origins, loopbackOnly, unknownPath, page }),
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
  "http: without tokens every caller has full access; set `tokens`, or `loopbackOnly: true` (answers only to localhost) or `open: true` (your application controls access)"

const CONNECTING = "this process has not reached its transport yet"

/** All routes, in the order of the reference. */
export const routes: ReadonlyArray<Route> = [
  ...submitRoutes,
  ...jobRoutes,
  ...whyRoutes,
  ...jobsRoutes,
  ...groupRoutes,
  ...eventRoutes,
  ...deadRoutes,
  ...scheduleRoutes,
  ...boardRoutes,
  ...revocationRoutes,
  ...statisticsRoutes,
  ...limitRoutes,
  ...serviceRoutes,
  ...healthRoutes,
  ...controlRoutes,
  ...metricsRoutes,
  ...descriptionRoutes,
]
