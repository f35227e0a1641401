/**
 * The metrics of one service for Prometheus, in a registry of their own: two services in a process do not mix. Those of all
 * queues and workers are counted at each scrape.
 */
import { Counter, Gauge, Registry } from "prom-client"
import type { Client } from "../client/client.ts"
import type { QueueStats } from "../statistics/schema.ts"
import { TransportError } from "../transport/mod.ts"
import { within } from "../transport/timers.ts"
import type { WorkerLoad } from "../worker/control/worker.ts"
import type { TaskNames, WorkerObserver } from "../worker/telemetry/observer.ts"
import { WorkerMetrics } from "./worker-metrics.ts"

/** What `/metrics` answers with. */
export interface MetricsText {
  /** All metrics, in the Prometheus text format 0.0.4. Asks the transport about its queues, for 2 seconds at most. */
  text(): Promise<string>
}

/** The metrics of a service, also as data. */
export interface ServiceMetrics extends MetricsText {
  /**
   * The same, as prom-client's `getMetricsAsJSON` gives it: what `AggregatorRegistry.aggregate` sums up over processes.
   */
  families(): Promise<ReadonlyArray<object>>
}

export class Metrics implements ServiceMetrics {
  readonly #registry = new Registry()
  readonly #queues: QueueMetrics

  constructor() {
    this.#queues = new QueueMetrics(this.#registry)
  }

  /** Adds the queues of this client. Until then the metrics say that the transport is not connected. */
  follow(client: Client): void {
    this.#queues.follow(client)
  }

  /** Counts what a worker does. `load` is asked at each scrape; `undefined` while the worker is not there yet. */
  worker(names: TaskNames, load: () => WorkerLoad | undefined): WorkerObserver {
    return new WorkerMetrics(this.#registry, names, load)
  }

  async text(): Promise<string> {
    await this.#queues.refresh()
    return this.#registry.metrics()
  }

  async families(): Promise<ReadonlyArray<object>> {
    await this.#queues.refresh()
    return this.#registry.getMetricsAsJSON()
  }

  /** Stops watching the connection. */
  close(): void {
    this.#queues.close()
  }
}

/**
 * Longest wait for the transport at a scrape, which must be answered also without it: Prometheus gives up after ten
 * seconds.
 */
const QUEUES_TIMEOUT_MS = 2_000

/** Most queues with metrics, the deepest first: each client with the scope `submit` can create queues without end. */
export const MAX_QUEUES = 1_000

/** Metrics of the queues, of all workers, and of the connection. */
export class QueueMetrics {
  readonly #depth: Gauge<"queue">
  readonly #scheduled: Gauge<"queue">
  readonly #running: Gauge<"queue">
  readonly #inFlight: Gauge<"queue">
  readonly #oldestAge: Gauge<"queue">
  readonly #blocked: Gauge
  readonly #connected: Gauge
  readonly #reconnects: Counter
  #client: Client | undefined
  #offStatus: () => void = () => undefined
  #isConnected = false

  constructor(registry: Registry) {
    const gauge = (name: string, help: string) =>
      // Each process counts all queues, so the sum over processes would be wrong, and the maximum is right.
      new Gauge({
        name: `callboard_queue_${name}`,
        help,
        labelNames: ["queue"],
        aggregator: "max",
        registers: [registry],
      })
    this.#depth = gauge("depth", "Tasks of the queue that are due and wait, also in a worker")
    this.#scheduled = gauge("scheduled", "Tasks in the queue that are not due yet")
    this.#running = gauge("running", "Running handlers for tasks of the queue")
    this.#inFlight = gauge("in_flight", "Tasks of the queue that were delivered to a worker and are not settled")
    this.#oldestAge = gauge(
      "oldest_age_seconds",
      "Time since the oldest task that no worker has taken was submitted; 0 if no task is waiting",
    )
    this.#blocked = new Gauge({
      name: "callboard_workers_blocked",
      help: "Workers, of all processes, whose thread a handler blocks",
      aggregator: "max",
      registers: [registry],
    })
    this.#connected = new Gauge({
      name: "callboard_transport_connected",
      help: "Whether the transport is reachable",
      aggregator: "min",
      registers: [registry],
    })
    this.#reconnects = new Counter({
      name: "callboard_reconnects_total",
      help: "Number of reconnections to the transport",
      registers: [registry],
    })
  }

  /** Counts the queues and watches the connection of this client, which has connected just now. */
  follow(client: Client): void {
    this.#client = client
    this.#isConnected = true
    this.#offStatus = client.connection.transport.onStatus((status) => {
      const isConnected = status === "connected"
      if (isConnected && !this.#isConnected) this.#reconnects.inc()
      this.#isConnected = isConnected
    })
  }

  /** Counts the queues. Metrics that the transport cannot give now are absent. Never fails. */
  async refresh(): Promise<void> {
    const client = this.#isConnected ? this.#client : undefined
    const [queues, blocked] = await Promise.all([
      client === undefined ? [] : askQueues(client),
      client === undefined ? undefined : askBlocked(client),
    ])
    // Without an await in between, so that a concurrent scrape sees either all old or all new values.
    for (const gauge of [this.#depth, this.#scheduled, this.#running, this.#inFlight, this.#oldestAge]) gauge.reset()
    for (const { name: queue, depth, scheduled, running, inFlight, oldestAge } of queues) {
      this.#depth.set({ queue }, depth)
      this.#scheduled.set({ queue }, scheduled)
      this.#running.set({ queue }, running)
      this.#inFlight.set({ queue }, inFlight)
      if (depth === 0) this.#oldestAge.set({ queue }, 0)
      else if (oldestAge !== undefined) this.#oldestAge.set({ queue }, oldestAge)
    }
    if (blocked === undefined) this.#blocked.remove()
    else this.#blocked.set(blocked)
    this.#connected.set(this.#isConnected ? 1 : 0)
  }

  close(): void {
    this.#offStatus()
  }
}

const late = () => new TransportError("unavailable", "the transport did not answer in time")

/** How many workers are blocked; `undefined` where that cannot be told now. */
const askBlocked = async (client: Client): Promise<number | undefined> => {
  try {
    const workers = await within(QUEUES_TIMEOUT_MS, client.statistics.workers(), late)
    return workers.filter(({ blocked }) => blocked !== undefined).length
  } catch {
    return undefined
  }
}

const askQueues = async (client: Client): Promise<ReadonlyArray<QueueStats>> => {
  try {
    const queues = await within(QUEUES_TIMEOUT_MS, client.queues(), late)
    if (queues.length <= MAX_QUEUES) return queues
    return [...queues].sort((a, b) => b.depth - a.depth).slice(0, MAX_QUEUES)
  } catch {
    return []
  }
}
