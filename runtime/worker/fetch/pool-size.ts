/** The concurrency of a worker: fixed, or between two bounds, following the number of its deliveries. */
import type { Log } from "../../log/log.ts"
import { type Autoscale, Autoscaler, KEEPALIVE_MS } from "../../options/autoscale.ts"
import type { DeliveryBuffer } from "./delivery-buffer.ts"

export interface PoolSizeOptions {
  readonly buffer: DeliveryBuffer
  /** Deliveries per handler. */
  readonly prefetch: number
  /** Bounds of autoscaling; absent: the concurrency is fixed. */
  readonly autoscale: Autoscale | undefined
  readonly log: Log
}

export class PoolSize {
  readonly #options: PoolSizeOptions
  readonly #keepalive: ReturnType<typeof setInterval>
  #autoscaler: Autoscaler | undefined

  constructor(options: PoolSizeOptions) {
    this.#options = options
    const { autoscale } = options
    if (autoscale !== undefined) this.#autoscaler = new Autoscaler(autoscale, performance.now())
    this.#keepalive = setInterval(() => this.follow(), KEEPALIVE_MS)
  }

  /**
   * Changes the concurrency; running handlers go on. Bounds that exclude the new value are widened, since the next task
   * would revert the change otherwise.
   */
  set(concurrency: number): void {
    const scaler = this.#autoscaler
    if (scaler !== undefined) {
      const { min, max } = scaler.bounds
      scaler.bounds = { min: Math.min(min, concurrency), max: Math.max(max, concurrency) }
    }
    this.#resize(concurrency)
  }

  #resize(concurrency: number): void {
    const { buffer, prefetch } = this.#options
    const bounds = this.#autoscaler?.bounds
    // The capacity is computed from the largest concurrency.
    buffer.resize({ concurrency, prefetch, ...(bounds === undefined ? {} : { maxConcurrency: bounds.max }) })
  }

  /** Changes the bounds; null: the concurrency stays as it is from now on. */
  autoscale(bounds: Autoscale | null): void {
    if (bounds === null) this.#autoscaler = undefined
    else if (this.#autoscaler === undefined) this.#autoscaler = new Autoscaler(bounds, performance.now())
    else this.#autoscaler.bounds = bounds
    this.#resize(this.#options.buffer.concurrency)
    this.follow()
  }

  /** Adapts the concurrency to the number of deliveries. Called when tasks arrive, and at intervals. */
  follow(): void {
    const { buffer, log } = this.#options
    const { concurrency, held } = buffer
    // A stuck handler holds a slot without a delivery.
    const wanted = this.#autoscaler?.scale(held.size + buffer.stuck, concurrency, performance.now()) ?? concurrency
    if (wanted === concurrency) return
    log.info(`${wanted > concurrency ? "Scaling up" : "Scaling down"} to ${wanted} handlers`)
    this.#resize(wanted)
  }

  stop(): void {
    clearInterval(this.#keepalive)
  }
}
