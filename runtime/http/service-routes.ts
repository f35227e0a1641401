/** Routes about the service itself: queues, workers, actors, limits, health and metrics. */

import type { WorkerDescription, WorkerList } from "../cluster/directory.ts"
import { CallboardError } from "../errors.ts"
import { compact } from "../protocol/compact.ts"
import type { JobRecord } from "../protocol/record.ts"
import { MAX_BATCH, MAX_PAGE, MAX_WAIT_MS } from "../routes/bounds.ts"
import { HEALTH_ROUTES, METRICS_ROUTES, SERVICE_ROUTES } from "../routes/service.ts"
import type { SeenWorker } from "../statistics/reading.ts"
import { TransportError } from "../transport/mod.ts"
import { VERSION } from "../version.ts"
import { BATCH_BODY_FACTOR, IDEMPOTENCY_TTL_MS, rangeOf, withReadDeadline } from "./limits.ts"
import { type Route, served } from "./route.ts"

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

export const serviceRoutes: ReadonlyArray<Route> = served(SERVICE_ROUTES, {
  "GET /v1/me": ({ caller: { name, scopes, open }, context: { features } }) => ({
    ...compact({ name }),
    scopes,
    open,
    features,
    zone: "UTC",
  }),
  "GET /v1/queues": async ({ context: { client } }) => {
    const { jobs, transport } = client.connection
    if (jobs.queues === undefined) {
      throw new CallboardError("unsupported", `transport ${transport.name} cannot count the tasks in its queues`)
    }
    return { queues: await withReadDeadline(client.statistics.queues()) }
  },
  "GET /v1/workers": async ({ context: { client }, query: { lost } }) => {
    const within = lost === undefined ? 0 : rangeOf("lost", lost)
    const { statistics } = client
    const [alive, gone] = await withReadDeadline(
      Promise.all([statistics.workers(), within === 0 ? [] : statistics.gone(within)]),
    )
    // The list of the living may be a second old.
    const isThere = ({ name, startedAt }: WorkerDescription): boolean =>
      !gone.some((each) => each.worker === name && each.startedAt === startedAt)
    const ran = await withReadDeadline(statistics.ranOn(gone.filter(({ goodbye }) => goodbye !== true)))
    return {
      workers: [...alive.filter(isThere), ...gone.map((each) => goneWorker(each, ran.get(each) ?? []))],
    }
  },
  "GET /v1/actors": async ({ context }) => ({ actors: await withReadDeadline(context.client.actors()) }),
  "GET /v1/info": async ({ context }) => {
    const { name, capabilities } = context.client.connection.transport
    return {
      name: "callboard" as const,
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
    }
  },
})

/** Liveness and readiness, without a token. */
export const healthRoutes: ReadonlyArray<Route> = served(HEALTH_ROUTES, {
  "GET /healthz": () => ({ status: "ok" as const }),
  "GET /readyz": async ({ context }) => {
    const why = await context.unready()
    if (why === undefined) return { ready: true }
    throw new TransportError("unavailable", why)
  },
})

const TEXT = "text/plain; version=0.0.4; charset=utf-8"

export const metricsRoutes: ReadonlyArray<Route> = served(METRICS_ROUTES, {
  "GET /metrics": async ({ context }) => {
    const { metrics } = context
    if (metrics === undefined) {
      throw new CallboardError("not-found", "metrics are switched off: set `metrics` to true")
    }
    return new Response(await metrics.text(), { headers: { "content-type": TEXT, "cache-control": "no-store" } })
  },
})
