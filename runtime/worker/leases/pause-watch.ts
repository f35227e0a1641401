/**
 * Notices that this process stood still (stopped, swapped out, or its thread blocked) for so long that leases may have
 * lapsed. Until that is cleared up nothing new is started: a delivery that waited here may run elsewhere by now.
 */

const TURN_MS = 250

export class PauseWatch {
  readonly #limitMs: number
  readonly #clearUp: () => Promise<void>
  readonly #cleared: () => void
  readonly #timer: ReturnType<typeof setInterval>
  #lastTurn = Date.now()
  #clearing = false

  /**
   * `clearUp` is called after a pause, and ends the doubt when it resolves; then `cleared` is called, since whoever
   * asked meanwhile was turned away. `leaseMs` is the length of a lease.
   */
  constructor(leaseMs: number, clearUp: () => Promise<void>, cleared: () => void) {
    this.#limitMs = Math.max(2 * TURN_MS, leaseMs * 0.6)
    this.#clearUp = clearUp
    this.#cleared = cleared
    this.#timer = setInterval(() => this.inDoubt(Date.now()), TURN_MS)
  }

  /** Whether leases may have lapsed, as far as is known now. */
  inDoubt(now: number): boolean {
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
