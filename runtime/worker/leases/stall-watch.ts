/**
 * Detects that this process was frozen (stopped, swapped out, or its main thread blocked) for so long that leases may
 * have expired. Until that is clarified no handler is started, because a waiting delivery may run on another worker by
 * now.
 */

import type { Clock } from "../../async/clock.ts"

const TURN_MS = 250

export class StallWatch {
  readonly #limitMs: number
  readonly #clearUp: () => Promise<void>
  readonly #cleared: () => void
  readonly #timer: ReturnType<typeof setInterval>
  readonly #clock: Clock
  #lastTurn: number
  #clearing = false

  /**
   * `clearUp` is called after a freeze, and the doubt ends when it resolves. Then `cleared` is called, because no
   * handler was started meanwhile. `leaseMs` is the length of a lease.
   */
  constructor(leaseMs: number, clearUp: () => Promise<void>, cleared: () => void, clock: Clock) {
    this.#clock = clock
    this.#lastTurn = clock.now()
    this.#limitMs = Math.max(2 * TURN_MS, leaseMs * 0.6)
    this.#clearUp = clearUp
    this.#cleared = cleared
    this.#timer = setInterval(() => this.leasesInDoubt(), TURN_MS)
  }

  /** Whether leases may have expired. */
  leasesInDoubt(): boolean {
    // The wall clock is used because the monotonic one may stop while the machine sleeps. If the time was set forward,
    // that costs one check of the leases; if it was set back, the next turn is compared with this one.
    const now = this.#clock.now()
    const paused = now - this.#lastTurn > this.#limitMs
    this.#lastTurn = now
    if (paused && !this.#clearing) {
      this.#clearing = true
      void this.#clearUp().finally(() => {
        this.#clearing = false
        this.#cleared()
      })
    }
    return this.#clearing
  }

  stop(): void {
    clearInterval(this.#timer)
  }
}
