/** Routes about the service itself: queues, workers, actors, limits, health and metrics. */

import * as Schema from "effect/Schema"
import { ActorList, type WorkerDescription, WorkerList } from "../cluster/directory.ts"
import { Me } from "../config/scopes.ts"
import { CallboardError } from "../errors.ts"
import { compact } from "../protocol/compact.ts"
import type { JobRecord } from "../protocol/record.ts"
import type { SeenWorker } from "../statistics/reading.ts"
import { QueueList } from "../statistics/schema.ts"
import { TransportError } from "../transport/mod.ts"
import { VERSION } from "../version.ts"
import {
  BATCH_BODY_FACTOR,
  IDEMPOTENCY_TTL_MS,
  MAX_BATCH,
  MAX_PAGE,
  MAX_WAIT_MS,
  rangeOf,
  withReadDeadline,
} from "./limits.ts"
import { text } from "./parameter.ts"
import { json } from "./response.ts"
import { type Route, route } from "./route.ts"
import { Health, Info, Readiness } from "./schema.ts"

/** A worker that is gone, as it was last seen. */
const goneWorker = (seen: SeenWorker, ran: ReadonlyArray<JobRecord>): (typeof WorkerList.Type)["workers"][number] => {
  const { worker, pid, host, startedAt, version, queues, concurrency, at, goodbye = false } = seen
  const lastSeen = new Date(at).toISOString()
  return {
    name: worker,
    pid,
    host,
    version: "",
    ...compact({ appVersion: version }),
    queues,
    actors: [],
    concurrency,
    state: goodbye ? "stopped" : "lost",
    running: ran.map(({ id }) => id),
    jobs: ran.map(({ id, name, queue, attempt, startedAt: began = at }) => ({
      id,
      name,
      queue,
      attempt,
      startedAt: new Date(began).toISOString(),
    })),
    inFlight: ran.length,
    processed: 0,
    failed: 0,
    startedAt,
    heartbeatAt: lastSeen,
    lost: { lastSeen, goodbye },
  }
}

export const serviceRoutes: ReadonlyArray<Route> = [
  route({
    method: "GET",
    path: "/v1/me",
    operation: "getMe",
    group: "Service",
    summary: "Whose token this is, and what it may do",
    description: "Answered to each token, and without one where the service asks for none.",
    scope: "any",
    responses: [{ status: 200, description: "The caller", schema: Me }],
    handle: ({ caller: { name, scopes, open }, context: { features } }) =>
      json<typeof Me.Type>({ ...compact({ name }), scopes, open, features, zone: "UTC" }),
  }),
  route({
    method: "GET",
    path: "/v1/queues",
    operation: "listQueues",
    group: "Service",
    summary: "Queues, with how much waits in them and for how long",
    description: "`unsupported` where the transport cannot tell. Asked once a second, whatever the number of callers.",
    scope: "read",
    responses: [{ status: 200, description: "The queues that exist", schema: QueueList }],
    problems: ["unsupported"],
    handle: async ({ context: { client } }) => {
      const { jobs, transport } = client.connection
      if (jobs.queues === undefined) {
        throw new CallboardError("unsupported", `transport ${transport.name} cannot tell what waits in its queues`)
      }
      return json<typeof QueueList.Type>({ queues: await withReadDeadline(client.statistics.queues()) })
    },
  }),
  route({
    method: "GET",
    path: "/v1/workers",
    operation: "listWorkers",
    group: "Service",
    summary: "Workers that are alive",
    description:
      "With `lost=15m` also those that were there in that time and are not any more, as they were last seen: `stopped` in order, or `lost`, with the jobs that it ran and no other worker runs since.",
    scope: "read",
    query: { lost: text(Schema.String.annotate({ description: "How far back, 24 hours at most: `15m`" })) },
    responses: [{ status: 200, description: "The workers", schema: WorkerList }],
    handle: async ({ context: { client }, query: { lost } }) => {
      const within = lost === undefined ? 0 : rangeOf("lost", lost)
      const { statistics } = client
      const [alive, gone] = await withReadDeadline(
        Promise.all([statistics.workers(), within === 0 ? [] : statistics.gone(within)]),
      )
      // The list of the living may be a second old.
      const isThere = ({ name, startedAt }: WorkerDescription): boolean =>
        !gone.some((each) => each.worker === name && each.startedAt === startedAt)
      const ran = await withReadDeadline(statistics.ranOn(gone.filter(({ goodbye }) => goodbye !== true)))
      return json<typeof WorkerList.Type>({
        workers: [...alive.filter(isThere), ...gone.map((each) => goneWorker(each, ran.get(each) ?? []))],
      })
    },
  }),
  route({
    method: "GET",
    path: "/v1/actors",
    operation: "listActors",
    group: "Service",
    summary: "Actors that live workers serve, with their methods and the JSON Schemas of inputs and results",
    scope: "read",
    responses: [{ status: 200, description: "The actors", schema: ActorList }],
    handle: async ({ context }) =>
      json<typeof ActorList.Type>({ actors: await withReadDeadline(context.client.actors()) }),
  }),
  route({
    method: "GET",
    path: "/v1/info",
    operation: "getInfo",
    group: "Service",
    summary: "Version, transport and limits",
    scope: "read",
    responses: [{ status: 200, description: "The service", schema: Info }],
    handle: async ({ context }) => {
      const { name, capabilities } = context.client.connection.transport
      return json<typeof Info.Type>({
        name: "callboard",
        version: VERSION,
        ready: (await context.unready()) === undefined,
        // JSON has no Infinity: what is unlimited is null.
        transport: { name, durability: capabilities.durability, capabilities: { ...capabilities } },
        limits: {
          body: context.maxBody,
          batchBody: context.maxBody * BATCH_BODY_FACTOR,
          batch: MAX_BATCH,
          page: MAX_PAGE,
          wait: MAX_WAIT_MS / 1000,
          idempotencyKey: IDEMPOTENCY_TTL_MS / 1000,
        },
      })
    },
  }),
]

/** Liveness and readiness, without a token. */
export const healthRoutes: ReadonlyArray<Route> = [
  route({
    method: "GET",
    path: "/healthz",
    operation: "getHealth",
    group: "Service",
    summary: "Whether the process is alive",
    responses: [{ status: 200, description: "It is", schema: Health }],
    handle: () => json<typeof Health.Type>({ status: "ok" }),
  }),
  route({
    method: "GET",
    path: "/readyz",
    operation: "getReadiness",
    group: "Service",
    summary: "Whether the process does its work: it consumes, and its transport is within reach",
    responses: [{ status: 200, description: "It does", schema: Readiness }],
    problems: ["transport-unavailable"],
    handle: async ({ context }) => {
      const why = await context.unready()
      if (why === undefined) return json<typeof Readiness.Type>({ ready: true })
      throw new TransportError("unavailable", why)
    },
  }),
]

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
    responses: [{ status: 200, description: "The metrics", schema: Schema.String, contentType: "text/plain" }],
    problems: ["not-found"],
    handle: async ({ context }) => {
      const { metrics } = context
      if (metrics === undefined) {
        throw new CallboardError("not-found", "metrics are switched off here: set `metrics` to true")
      }
      return new Response(await metrics.text(), { headers: { "content-type": TEXT, "cache-control": "no-store" } })
    },
  }),
]
