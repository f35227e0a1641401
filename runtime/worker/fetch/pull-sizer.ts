/**
 * Decides how much to pull while tasks wait for limits. Mostly no more than the buffer can keep even if all new tasks
 * have to wait, so that few are given back. Now and then as much as there are free slots, because tasks without a limit
 * may be queued behind those that have to wait.
 */
import type { DeliveryBuffer } from "./delivery-buffer.ts"

/** Pause that collects deferred tasks, which come back in small groups, into one pull. */
const TOGETHER_MS = 25
/** Time per task that a pull is worth, including its pause, if all its tasks have to wait. */
const IN_VAIN_MS = 0.5
/** Time per task while the buffer has just become crowded, or moves so fast that a quarter of it is free by then. */
const MOVING_MS = 1.25
/** Longest time between two pulls that look behind the waiting tasks. */
const LOOK_MS = 1_000

export class PullSizer {
  readonly #buffer: DeliveryBuffer
  #askedAt = 0
  #delayed = 0
  #granted = 0
  /** Time of the last pull that looked behind the waiting tasks. */
  #lookedAt = 0
  /** Time when the buffer was last not crowded. */
  #thinAt = 0

  constructor(buffer: DeliveryBuffer) {
    this.#buffer = buffer
  }

  /** Number of deliveries that the next pull asks for. */
  get nextSize(): number {
    const buffer = this.#buffer
    const now = performance.now()
    this.#askedAt = now
    this.#delayed = buffer.delayed
    this.#granted = buffer.granted
    const looks = buffer.isCrowded || now - this.#lookedAt >= LOOK_MS
    if (!buffer.isCrowded) this.#thinAt = now
    if (looks || buffer.freeIfLimited === buffer.free) this.#lookedAt = now
    return looks ? buffer.free : buffer.freeIfLimited
  }

  /** Called after a pull while the buffer is crowded. Resolves when the next pull is worth its cost. */
  async pulled(count: number, asked: number, signal: AbortSignal): Promise<void> {
    const buffer = this.#buffer
    const inVain = buffer.delayed - this.#delayed >= count ? count * IN_VAIN_MS - this.#passed : 0
    const pause = Math.max(inVain, count < asked ? TOGETHER_MS : 0)
    if (pause <= 0) return
    do await buffer.whenUncrowded(pause, signal)
    while (inVain > 0 && count >= asked && buffer.isCrowded && this.#isMoving(count * MOVING_MS) && !signal.aborted)
  }

  get #passed(): number {
    return performance.now() - this.#askedAt
  }

  /** Whether the crowd formed within `ms`, or will be gone by then. */
  #isMoving(ms: number): boolean {
    const { granted, limitCapacity } = this.#buffer
    if (performance.now() - this.#thinAt < ms) return true
    return this.#passed < ms && granted - this.#granted >= (0.25 * limitCapacity * this.#passed) / ms
  }
}
