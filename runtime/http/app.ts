/**
 * The Hono application: the table of routes behind one door. It can be served by itself, or mounted in another
 * application: `app.route("/jobs", http(client))`.
 */
import { Hono } from "hono"
import type { Client } from "../client.ts"
import { DEFAULTS } from "../config.ts"
import { CallboardError } from "../errors.ts"
import { hostLog, type Log, type LogSink, makeLog } from "../log.ts"
import type { MetricsText } from "../metrics/metrics.ts"
import { TransportError } from "../transport.ts"
import { ANYONE, gateOf, type Token } from "./access.ts"
import type { Desk } from "./desk.ts"
import { KEEP_ALIVE_MS } from "./limits.ts"
import { checkHost, checkOrigin } from "./loopback.ts"
import { type OpenApi, openApiOf } from "./openapi.ts"
import { asCallboardError, problem } from "./problem.ts"
import type { Route } from "./route.ts"
import { routes } from "./routes.ts"

export interface HttpAppOptions {
  /** Who may do what. None: everyone who reaches the application may do everything, except pages of other origins. */
  readonly tokens?: ReadonlyArray<Token>
  /** Largest task, in bytes; an array may have 16 times as many. The transport may allow less. Defaults to 1 MiB. */
  readonly maxBody?: number
  /** What `/readyz` says, besides whether the transport is within reach. Defaults to yes. */
  readonly ready?: () => boolean
  /** Answer only requests that name this machine as their host. Defaults to false. */
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

const honoPath = (path: string): string => path.replaceAll(/\{(\w+)\}/g, ":$1")

/** Whether a path, or the template of one, is one that a route serves. */
const serves = (route: Route, path: string): boolean =>
  new RegExp(`^${route.path.replaceAll(/\{\w+\}/g, "[^/]+")}$`).test(path)

/** All paths, those without parameters first, with the methods that they have, for `Allow`. */
const allowed: ReadonlyArray<readonly [path: string, methods: string]> = [...new Set(routes.map(({ path }) => path))]
  .sort((a, b) => Number(a.includes("{")) - Number(b.includes("{")))
  .map((path) => {
    const methods = routes.filter((route) => serves(route, path)).map(({ method }) => method)
    return [path, methods.flatMap((method) => (method === "GET" ? ["GET", "HEAD"] : [method])).join(", ")]
  })

/** Loads what it needs only now, and not with the package. */
const metricsOf = async (client: Client, given: MetricsText | false | undefined): Promise<MetricsText | undefined> => {
  if (given !== undefined) return given === false ? undefined : given
  const { Metrics } = await import("../metrics/metrics.ts")
  return new Metrics(client)
}

/** An application over a client, which stays the caller's. Fails with `invalid-input` when a token cannot be used. */
export const http = (client: Client, options: HttpAppOptions = {}): Hono => {
  const { tokens = [], loopbackOnly = false, ready = () => true } = options
  const { transport } = client.board
  const gate = gateOf(tokens)
  let lost: string | undefined
  transport.onStatus((status, why) => {
    lost = status === "connected" ? undefined : (why?.message ?? "this service has lost its connection")
  })
  const documents = new Map<string, OpenApi>()
  const desk: Desk = {
    client,
    log: (options.log === undefined ? makeLog() : hostLog(options.log)).with({ logger: "callboard.http" }),
    maxBody: Math.min(options.maxBody ?? DEFAULTS.maxBody, transport.capabilities.maxTask),
    keepAliveMs: options.keepAliveMs ?? KEEP_ALIVE_MS,
    ready: () => lost === undefined && ready(),
    lost: () => lost,
    metrics: metricsOf(client, options.metrics),
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

  const admit = (request: Request): void => {
    if (desk.closing.aborted) throw new TransportError("unavailable", "this service is stopping")
    if (loopbackOnly) checkHost(request.headers.get("host") ?? undefined)
    if (tokens.length === 0 && request.method !== "GET" && request.method !== "HEAD") checkOrigin(request)
  }

  const app = new Hono()
  for (const route of routes) {
    const { scope } = route
    app.on(route.method, honoPath(route.path), (c) => {
      admit(c.req.raw)
      const caller = scope === undefined ? ANYONE : gate(c.req.header("authorization"))
      if (scope === undefined || caller.may(scope)) return route.serve(c, desk, caller)
      return problem(new CallboardError("forbidden", `this token lacks the scope ${scope}`), {
        headers: { "www-authenticate": `Bearer realm="callboard", error="insufficient_scope", scope="${scope}"` },
      })
    })
  }
  for (const [path, methods] of allowed) {
    app.all(honoPath(path), (c) => {
      admit(c.req.raw)
      const error = new CallboardError("unsupported", `${c.req.method} is not for this path; there is ${methods}`)
      return problem(error, { status: 405, headers: { allow: methods } })
    })
  }
  app.all("*", (c) => {
    admit(c.req.raw)
    throw new CallboardError("not-found", "there is no such route; GET / shows those that there are")
  })
  app.onError((thrown) => problem(asCallboardError(thrown, desk.log)))
  return app
}
