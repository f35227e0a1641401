/**
 * The HTTP interface as a server of its own. Without tokens it is for this machine alone. Stopping ends waits and streams, lets
 * other requests finish for a moment, and then closes what is left. A pool of worker processes has a smaller one: liveness,
 * readiness and metrics.
 */
import type { Client } from "../client/client.ts"
import type { Token } from "../config/scopes.ts"
import { DEFAULTS, type HttpOptions } from "../config/table.ts"
import { CallboardError } from "../errors.ts"
import type { Log } from "../log/log.ts"
import type { MetricsText } from "../metrics/metrics.ts"
import { checkTokenLengths, hostText, isLoopback } from "./access.ts"
import { attachableHttp } from "./app.ts"
import { honoApp } from "./hono-app.ts"
import { Budget, KEEP_ALIVE_MS } from "./limits.ts"
import { listen } from "./listener.ts"
import { openApiOf } from "./openapi.ts"
import type { HttpContext } from "./route.ts"
import { healthRoutes, metricsRoutes } from "./service-routes.ts"

export interface HttpServer {
  /** URL under which this machine reaches the server. */
  readonly url: string
  /** URL of the address that the server listens on, which may stand for every address of the machine. */
  readonly listens: string
  /** Stops listening; resolves when no request is served any more. Idempotent. */
  stop(): Promise<void>
}

export interface HttpServerContext {
  /** Whether the process consumes, or why not. */
  readonly ready: () => boolean | string
  /** Largest task, in bytes. */
  readonly maxBody: number
  readonly log?: Log
  readonly metrics?: MetricsText | false
}

/** How long running requests may take to finish when the server stops. */
const STOP_GRACE_MS = 2_000

const addressOf = ({ port = DEFAULTS.http.port, host = DEFAULTS.http.host, tokens = [] }: HttpOptions) => {
  if (tokens.length === 0 && !isLoopback(host)) {
    throw new CallboardError(
      "invalid-input",
      `http.host: ${host} is reachable from other machines and no token is set; set http.tokens, or listen on ${DEFAULTS.http.host}`,
      { field: "http.host" },
    )
  }
  if (!isLoopback(host)) checkTokenLengths(tokens, host)
  return { host: host.replace(/^\[(.*)\]$/, "$1"), port }
}

/** The host part of `url`: where the server listens on all addresses, the loopback one. */
const shownHost = (host: string): string =>
  host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "[::1]" : hostText(host)

/** Access rules that the server passes to its application. */
export interface ServerAccess {
  readonly tokens: ReadonlyArray<Token>
  readonly origins: ReadonlyArray<string>
  readonly loopbackOnly: boolean
  /** Fires when the server stops. */
  readonly closing: AbortSignal
}

/**
 * Starts to listen. Fails with `invalid-input`, naming the option, when it cannot or must not. Later faults are logged.
 */
export const startServer = async (
  options: HttpOptions,
  appOf: (access: ServerAccess) => { fetch(request: Request): Response | Promise<Response> },
  log?: Log,
): Promise<HttpServer> => {
  const address = addressOf(options)
  const { tokens = [], origins = [] } = options
  const closing = new AbortController()
  const app = appOf({ tokens, origins, loopbackOnly: tokens.length === 0, closing: closing.signal })
  const onLost = (cause: unknown) =>
    log?.error("no connection can be accepted now; trying again. Raise the limit on open files (ulimit -n)", {
      cause: String(cause),
    })
  const listener = await listen(address, (request) => app.fetch(request), onLost)
  let stopped: Promise<void> | undefined
  const stop = async (): Promise<void> => {
    closing.abort()
    let timer: ReturnType<typeof setTimeout> | undefined
    const grace = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, STOP_GRACE_MS)
    })
    await Promise.race([listener.drain(), grace])
    clearTimeout(timer)
    await listener.kill()
  }
  return {
    url: `http://${shownHost(address.host)}:${listener.port}`,
    listens: `http://${hostText(address.host)}:${listener.port}`,
    stop: () => {
      stopped ??= stop()
      return stopped
    },
  }
}

/** A server that listens before its client has connected. */
export interface AttachableServer extends HttpServer {
  /** From now on requests are served by this client. Until then each route that needs the transport answers 503. */
  attach(client: Client): void
}

/** Starts a server with all routes. Fails as {@link startServer} does. */
export const startHttp = async (options: HttpOptions, context: HttpServerContext): Promise<AttachableServer> => {
  let attach: AttachableServer["attach"] = () => undefined
  const server = await startServer(
    options,
    (access) => {
      const attachable = attachableHttp({
        ...context,
        ...access,
        page: options.page ?? true,
        linkSecret: options.linkSecret,
      })
      attach = attachable.attach
      return attachable.app
    },
    context.log?.with({ logger: "callboard.http" }),
  )
  return { ...server, attach: (client) => attach(client) }
}

const UNKNOWN_PATH =
  "a pool of worker processes answers /healthz, /readyz and /metrics; `callboard serve` answers everything else"

const poolRoutes = [...healthRoutes, ...metricsRoutes]

export type PoolContext = Pick<HttpContext, "unready" | "metrics" | "log">

/** Starts to serve the HTTP interface of a pool. Fails with `invalid-input`, naming the option, when it cannot or must not listen. */
export const startPoolHttp = (
  options: HttpOptions,
  { unready, metrics, ...context }: PoolContext,
): Promise<HttpServer> => {
  const log = context.log.with({ logger: "callboard.http" })
  return startServer(
    options,
    ({ tokens, origins, loopbackOnly, closing }) => {
      const context: HttpContext = {
        // The process that watches over a pool has no transport, and none of these routes needs a client.
        get client(): never {
          throw new CallboardError("not-found", UNKNOWN_PATH)
        },
        log,
        maxBody: 0,
        budget: new Budget(),
        keepAliveMs: KEEP_ALIVE_MS,
        unready,
        outage: () => undefined,
        metrics,
        linkSecret: undefined,
        closing,
        features: [],
        describe: (base) => openApiOf(poolRoutes, base, tokens.length > 0),
      }
      return honoApp(context, { routes: poolRoutes, tokens, origins, loopbackOnly, unknownPath: UNKNOWN_PATH })
    },
    log,
  )
}
