/** The metrics of one service for Prometheus, in a registry of their own: two services in a process do not mix. */
import { Registry } from "prom-client"
import type { Client } from "../client/client.ts"
import type { WorkerLoad } from "../worker/control/worker.ts"
import type { WorkerObserver } from "../worker/telemetry/observer.ts"
import type { TaskNames } from "../worker/telemetry/task-names.ts"
import { BoardMetrics } from "./board-metrics.ts"
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
  readonly #board: BoardMetrics

  constructor() {
    this.#board = new BoardMetrics(this.#registry)
  }

  /** Adds the queues of this client. Until then the metrics say that the transport is not connected. */
  follow(client: Client): void {
    this.#board.follow(client)
  }

  /** Counts what a worker does. `load` is asked at each scrape; `undefined` while the worker is not there yet. */
  worker(names: TaskNames, load: () => WorkerLoad | undefined): WorkerObserver {
    return new WorkerMetrics(this.#registry, names, load)
  }

  async text(): Promise<string> {
    await this.#board.refresh()
    return this.#registry.metrics()
  }

  async families(): Promise<ReadonlyArray<object>> {
    await this.#board.refresh()
    return this.#registry.getMetricsAsJSON()
  }

  /** Stops watching the connection. */
  close(): void {
    this.#board.close()
  }
}
