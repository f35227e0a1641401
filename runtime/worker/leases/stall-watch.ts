/**
 * Notices that this process stood still (stopped, swapped out, or its thread blocked) for so long that leases may have
 * lapsed. Until that is cleared up nothing new is started: a delivery that waited here may run elsewhere by now.
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
   * `clearUp` is called after a pause, and ends the doubt when it resolves; then `cleared` is called, since whoever
   * asked meanwhile was turned away. `leaseMs` is the length of a lease.
   */
  constructor(leaseMs: number, clearUp: () => Promise<void>, cleared: () => void, clock: Clock) {
    this.#clock = clock
    this.#lastTurn = clock.now()
    this.#limitMs = Math.max(2 * TURN_MS, leaseMs * 0.6)
    this.#clearUp = clearUp
    this.#cleared = cleared
    this.#timer = setInterval(() => this.leasesInDoubt(), TURN_MS)
  }

  /** Whether leases may have lapsed, as far as is known now. */
  leasesInDoubt(): boolean {
    // The wall clock goes on while the whole machine sleeps, and the other one may not. Where it was set forward, the doubt
    // costs a question; where it was set back, this turn is the one that the next is compared with.
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
