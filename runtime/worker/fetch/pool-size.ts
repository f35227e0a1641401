/** How many handlers a worker runs at a time: as it was told, or between two bounds by what it holds. */
import type { Log } from "../../log/log.ts"
import { type Autoscale, Autoscaler, KEEPALIVE_MS } from "../../options/autoscale.ts"
import type { DeliveryBuffer } from "./delivery-buffer.ts"

export interface PoolSizeOptions {
  readonly buffer: DeliveryBuffer
  /** Deliveries held per handler. */
  readonly prefetch: number
  /** Absent: the size stays as it is. */
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

  /** Changes the size; what runs goes on. Bounds that it lies outside of move, since the next task would undo it otherwise. */
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
    // What is held is made for the largest pool there will be.
    buffer.resize({ concurrency, prefetch, ...(bounds === undefined ? {} : { maxConcurrency: bounds.max }) })
  }

  /** Changes the bounds; null: from now on the size stays as it is. */
  autoscale(bounds: Autoscale | null): void {
    if (bounds === null) this.#autoscaler = undefined
    else if (this.#autoscaler === undefined) this.#autoscaler = new Autoscaler(bounds, performance.now())
    else this.#autoscaler.bounds = bounds
    this.#resize(this.#options.buffer.concurrency)
    this.follow()
  }

  /** Lets the size follow what is held: asked at each arrival of tasks, and now and then. */
  follow(): void {
    const { buffer, log } = this.#options
    const { concurrency, inFlight } = buffer
    const wanted = this.#autoscaler?.scale(inFlight.size, concurrency, performance.now()) ?? concurrency
    if (wanted === concurrency) return
    log.info(`${wanted > concurrency ? "Scaling up" : "Scaling down"} to ${wanted} handlers`)
    this.#resize(wanted)
  }

  stop(): void {
    clearInterval(this.#keepalive)
  }
}
