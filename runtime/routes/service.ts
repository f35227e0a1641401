/** Routes about the service itself: queues, workers, actors, health and metrics. */
import * as Schema from "effect/Schema"
import { ActorList, WorkerList } from "../cluster/directory.ts"
import { Me } from "../config/scopes.ts"
import { QueueList } from "../statistics/schema.ts"
import type { Descriptions } from "./description.ts"
import { text } from "./parameter.ts"
import { Health, Info, Readiness } from "./service-schema.ts"

export const SERVICE_ROUTES = {
  "GET /v1/me": {
    operation: "getMe",
    group: "Service",
    summary: "The owner and the scopes of this token",
    description: "Any token is accepted; none is needed if the service has no tokens.",
    scope: "any",
    responses: [{ status: 200, description: "The caller", schema: Me }],
  },
  "GET /v1/queues": {
    operation: "listQueues",
    group: "Service",
    summary: "Queues, with the number of waiting jobs and how long they have waited",
    description:
      "`unsupported` if the transport cannot count them. Read at most once a second, regardless of the number of callers.",
    scope: "read",
    responses: [{ status: 200, description: "The queues that exist", schema: QueueList }],
    problems: ["unsupported"],
  },
  "GET /v1/workers": {
    operation: "listWorkers",
    group: "Service",
    summary: "Live workers",
    description:
      "With `lost=15m` also the workers that ended in that time, as they were last seen: `stopped` if they shut down gracefully, or `lost`, with the jobs that they ran and that no other worker has taken since.",
    scope: "read",
    query: { lost: text(Schema.String.annotate({ description: "How far back, such as `15m`; at most 24 hours" })) },
    responses: [{ status: 200, description: "The workers", schema: WorkerList }],
  },
  "GET /v1/actors": {
    operation: "listActors",
    group: "Service",
    summary: "Actors served by live workers, with their methods and the JSON Schemas of inputs and results",
    scope: "read",
    responses: [{ status: 200, description: "The actors", schema: ActorList }],
  },
  "GET /v1/info": {
    operation: "getInfo",
    group: "Service",
    summary: "Version, transport and limits",
    scope: "read",
    responses: [{ status: 200, description: "The service", schema: Info }],
  },
} as const satisfies Descriptions

export const HEALTH_ROUTES = {
  "GET /healthz": {
    operation: "getHealth",
    group: "Service",
    summary: "Whether the process is running",
    responses: [{ status: 200, description: "It is running", schema: Health }],
  },
  "GET /readyz": {
    operation: "getReadiness",
    group: "Service",
    summary: "Whether the process is ready: it consumes, and its transport is reachable",
    responses: [{ status: 200, description: "It is ready", schema: Readiness }],
    problems: ["transport-unavailable"],
  },
} as const satisfies Descriptions

export const METRICS_ROUTES = {
  "GET /metrics": {
    operation: "getMetrics",
    group: "Service",
    summary: "Metrics for Prometheus: of the queues, and of the worker in this process",
    description:
      "Text format 0.0.4. Metrics that the transport does not provide, or cannot provide now, are absent. `not-found` if metrics are switched off.",
    scope: "read",
    responses: [{ status: 200, description: "The metrics", schema: Schema.String, contentType: "text/plain" }],
    problems: ["not-found"],
  },
} as const satisfies Descriptions
