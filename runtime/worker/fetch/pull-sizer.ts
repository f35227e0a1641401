/**
 * How much is pulled while tasks wait here for their limits. Mostly no more than still finds a place, so that few go back. Now
 * and then as much as there is room for without them: behind tasks that have to wait there may be others that need not.
 */
import type { DeliveryBuffer } from "./delivery-buffer.ts"

/** What comes back to its limit comes in small portions: together they cost one pull. */
const TOGETHER_MS = 25
/** A pull that has brought only what has to wait takes so long for each, its pause included. */
const IN_VAIN_MS = 0.5
/** So long for each while the crowd is new, or moves on so fast that a quarter of the places is free then. */
const MOVING_MS = 1.25
/** What lies behind those that wait is looked at so often at least, however fast they move on. */
const LOOK_MS = 1_000

export class PullSizer {
  readonly #buffer: DeliveryBuffer
  #askedAt = 0
  #delayed = 0
  #granted = 0
  /** When what lies behind those that wait was last looked at. */
  #lookedAt = 0
  /** When no crowd was last seen. */
  #thinAt = 0

  constructor(buffer: DeliveryBuffer) {
    this.#buffer = buffer
  }

  /** How much the next pull asks for. */
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

  /** A pull has brought something, perhaps, and it is crowded here. Resolves when the next one is worth its cost. */
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

  /** Whether it has come together within so long, or will be gone by then. */
  #isMoving(ms: number): boolean {
    const { granted, limitCapacity } = this.#buffer
    if (performance.now() - this.#thinAt < ms) return true
    return this.#passed < ms && granted - this.#granted >= (0.25 * limitCapacity * this.#passed) / ms
  }
}
