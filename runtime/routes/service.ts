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
    summary: "Whose token this is, and what it may do",
    description: "Answered to each token, and without one where the service asks for none.",
    scope: "any",
    responses: [{ status: 200, description: "The caller", schema: Me }],
  },
  "GET /v1/queues": {
    operation: "listQueues",
    group: "Service",
    summary: "Queues, with how much waits in them and for how long",
    description: "`unsupported` where the transport cannot tell. Asked once a second, whatever the number of callers.",
    scope: "read",
    responses: [{ status: 200, description: "The queues that exist", schema: QueueList }],
    problems: ["unsupported"],
  },
  "GET /v1/workers": {
    operation: "listWorkers",
    group: "Service",
    summary: "Workers that are alive",
    description:
      "With `lost=15m` also those that were there in that time and are not any more, as they were last seen: `stopped` in order, or `lost`, with the jobs that it ran and no other worker runs since.",
    scope: "read",
    query: { lost: text(Schema.String.annotate({ description: "How far back, 24 hours at most: `15m`" })) },
    responses: [{ status: 200, description: "The workers", schema: WorkerList }],
  },
  "GET /v1/actors": {
    operation: "listActors",
    group: "Service",
    summary: "Actors that live workers serve, with their methods and the JSON Schemas of inputs and results",
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
    summary: "Whether the process is alive",
    responses: [{ status: 200, description: "It is", schema: Health }],
  },
  "GET /readyz": {
    operation: "getReadiness",
    group: "Service",
    summary: "Whether the process does its work: it consumes, and its transport is within reach",
    responses: [{ status: 200, description: "It does", schema: Readiness }],
    problems: ["transport-unavailable"],
  },
} as const satisfies Descriptions

export const METRICS_ROUTES = {
  "GET /metrics": {
    operation: "getMetrics",
    group: "Service",
    summary: "Metrics for Prometheus: of the queues, and of this process' own worker",
    description:
      "Text format 0.0.4. What the transport cannot tell, or not now, is absent. `not-found` where metrics are switched off.",
    scope: "read",
    responses: [{ status: 200, description: "The metrics", schema: Schema.String, contentType: "text/plain" }],
    problems: ["not-found"],
  },
} as const satisfies Descriptions
