/** Moments of a rate that this worker has taken for its starts. Pure: the clock comes from outside. */
import { burstOf, latenessOf, type Rate, spacingOf } from "../../options/rate.ts"

export class RateTokens {
  readonly #spacing: number
  readonly #lateness: number
  readonly #burst: number
  /** In order of time. */
  #grants: Array<{ readonly at: number; readonly count: number }> = []
  #grantSize = 0

  constructor(rate: Rate) {
    this.#spacing = spacingOf(rate)
    this.#lateness = latenessOf(rate)
    this.#burst = burstOf(rate)
  }

  /** Moments were taken: the first at `at`. */
  add(at: number, count: number): void {
    if (count > 0) this.#grants.push({ at, count })
  }

  /** How many there are that have not lapsed. */
  left(now: number): number {
    this.#forget(now)
    return this.#grants.reduce((sum, { count }) => sum + count, 0)
  }

  /** When the next start is due; `undefined`: there is none. */
  next(now: number): number | undefined {
    this.#forget(now)
    return this.#grants[0]?.at
  }

  /** Uses the first one. */
  use(): void {
    this.#drop(1)
  }

  /** How many are worth to be taken at least: more while all are used, so that a high rate costs few writes. */
  get grantSize(): number {
    this.#grantSize = Math.min(this.#burst, Math.max(1, this.#grantSize * 2))
    return this.#grantSize
  }

  #forget(now: number): void {
    for (let first = this.#grants[0]; first !== undefined; first = this.#grants[0]) {
      const lapsed = Math.ceil((now - this.#lateness - first.at) / this.#spacing)
      if (lapsed <= 0) return
      this.#grantSize = 0
      this.#drop(Math.min(lapsed, first.count))
    }
  }

  #drop(some: number): void {
    const [first, ...rest] = this.#grants
    if (first === undefined) return
    const count = first.count - some
    this.#grants = count > 0 ? [{ at: first.at + some * this.#spacing, count }, ...rest] : rest
  }
}
