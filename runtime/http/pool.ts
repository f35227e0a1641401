/** The HTTP interface of a pool of worker processes: liveness, readiness and metrics. */
import { CallboardError } from "../errors.ts"
import { honoApp } from "./hono-app.ts"
import { Budget, KEEP_ALIVE_MS } from "./limits.ts"
import { openApiOf } from "./openapi.ts"
import type { HttpContext } from "./route.ts"
import { type HttpOptions, type HttpServer, startServer } from "./server.ts"
import { healthRoutes, metricsRoutes } from "./service-routes.ts"

const UNKNOWN_PATH =
  "a pool of worker processes answers /healthz, /readyz and /metrics; `callboard serve` answers everything else"

const routes = [...healthRoutes, ...metricsRoutes]

export type PoolContext = Pick<HttpContext, "unready" | "metrics" | "log">

/** Starts to listen. Fails with `invalid-input`, naming the option, when it cannot or must not. */
export const startPoolHttp = (options: HttpOptions, { unready, metrics, ...context }: PoolContext): HttpServer => {
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
        closing,
        features: [],
        describe: (base) => openApiOf(routes, base, tokens.length > 0),
      }
      return honoApp(context, { routes, tokens, origins, loopbackOnly, unknownPath: UNKNOWN_PATH })
    },
    log,
  )
}
