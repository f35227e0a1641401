/** `GET /metrics`: what Prometheus scrapes. */
import { Schema } from "effect"
import { CallboardError } from "../errors.ts"
import { type Route, route } from "./route.ts"

const TEXT = "text/plain; version=0.0.4; charset=utf-8"

export const metricsRoutes: ReadonlyArray<Route> = [
  route({
    method: "GET",
    path: "/metrics",
    operation: "getMetrics",
    group: "Service",
    summary: "Metrics for Prometheus: of the queues, and of this process' own worker",
    description:
      "Text format 0.0.4. What the transport cannot tell, or not now, is absent. `not-found` where metrics are switched off.",
    scope: "read",
    answers: [{ status: 200, description: "The metrics", schema: Schema.String, contentType: "text/plain" }],
    problems: ["not-found"],
    handle: async ({ desk }) => {
      const { metrics } = desk
      if (metrics === undefined) {
        throw new CallboardError("not-found", "metrics are switched off here: set `metrics` to true")
      }
      return new Response(await metrics.text(), { headers: { "content-type": TEXT, "cache-control": "no-store" } })
    },
  }),
]
