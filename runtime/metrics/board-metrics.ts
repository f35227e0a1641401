/** What a process can tell about its board: the queues, which are asked at each scrape, and the connection. */
import { Counter, Gauge, type Registry } from "prom-client"
import { within } from "../async/deadline.ts"
import type { Client } from "../client/client.ts"
import type { QueueStats } from "../client/queue-stats.ts"
import { TransportError } from "../transport/mod.ts"

/** A scrape must answer while the transport does not; Prometheus itself gives up after ten seconds. */
const QUEUES_TIMEOUT_MS = 2_000

/** Most queues that are told: whoever may submit makes queues. Those in which most waits come first. */
export const MAX_QUEUES = 1_000

export class BoardMetrics {
  readonly #depth: Gauge<"queue">
  readonly #scheduled: Gauge<"queue">
  readonly #inFlight: Gauge<"queue">
  readonly #oldestAge: Gauge<"queue">
  readonly #connected: Gauge
  readonly #reconnects: Counter
  #client: Client | undefined
  #offStatus: () => void = () => undefined
  #isConnected = false

  constructor(registry: Registry) {
    const gauge = (name: string, help: string) =>
      // Of the whole board, whoever asks: processes that are added up say the same.
      new Gauge({
        name: `callboard_queue_${name}`,
        help,
        labelNames: ["queue"],
        aggregator: "max",
        registers: [registry],
      })
    this.#depth = gauge("depth", "Tasks that are due and wait in the queue")
    this.#scheduled = gauge("scheduled", "Tasks in the queue that are not due yet")
    this.#inFlight = gauge("in_flight", "Tasks of the queue that were handed to a worker and are not settled")
    this.#oldestAge = gauge(
      "oldest_age_seconds",
      "Time since the oldest task that waits was submitted; 0 if none waits",
    )
    this.#connected = new Gauge({
      name: "callboard_transport_connected",
      help: "Whether the transport is within reach",
      aggregator: "min",
      registers: [registry],
    })
    this.#reconnects = new Counter({
      name: "callboard_reconnects_total",
      help: "Times that the transport came within reach again",
      registers: [registry],
    })
  }

  /** From now on it is about the board of this client, which has connected just now. */
  follow(client: Client): void {
    this.#client = client
    this.#isConnected = true
    this.#offStatus = client.connection.transport.onStatus((status) => {
      const isConnected = status === "connected"
      if (isConnected && !this.#isConnected) this.#reconnects.inc()
      this.#isConnected = isConnected
    })
  }

  /** Asks what waits. Whatever the transport cannot tell now is absent. Never fails. */
  async refresh(): Promise<void> {
    const queues = this.#client !== undefined && this.#isConnected ? await askQueues(this.#client) : []
    // In one turn, so that another scrape sees either the one or the other.
    for (const gauge of [this.#depth, this.#scheduled, this.#inFlight, this.#oldestAge]) gauge.reset()
    for (const { name: queue, depth, scheduled, inFlight, oldestAge } of queues) {
      this.#depth.set({ queue }, depth)
      this.#scheduled.set({ queue }, scheduled)
      this.#inFlight.set({ queue }, inFlight)
      if (depth === 0) this.#oldestAge.set({ queue }, 0)
      else if (oldestAge !== undefined) this.#oldestAge.set({ queue }, oldestAge)
    }
    this.#connected.set(this.#isConnected ? 1 : 0)
  }

  close(): void {
    this.#offStatus()
  }
}

const askQueues = async (client: Client): Promise<ReadonlyArray<QueueStats>> => {
  try {
    const late = () => new TransportError("unavailable", "the transport did not answer in time")
    const queues = await within(QUEUES_TIMEOUT_MS, client.queues(), late)
    if (queues.length <= MAX_QUEUES) return queues
    return [...queues].sort((a, b) => b.depth - a.depth).slice(0, MAX_QUEUES)
  } catch {
    return []
  }
}
