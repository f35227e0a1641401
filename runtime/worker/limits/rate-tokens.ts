/**
 * Tokens of a rate that this worker has taken from the shared state for its next starts. Pure: the clock is passed in.
 */
import { burstOf, latenessOf, type Rate, spacingOf } from "../../options/rate.ts"

export class RateTokens {
  readonly #spacing: number
  readonly #lateness: number
  readonly #burst: number
  /** Grants of tokens, ordered by time: the time of the first token, and how many follow at the rate's spacing. */
  #grants: Array<{ readonly at: number; readonly count: number }> = []
  #grantSize = 0

  constructor(rate: Rate) {
    this.#spacing = spacingOf(rate)
    this.#lateness = latenessOf(rate)
    this.#burst = burstOf(rate)
  }

  /** Adds a grant whose first token is due at `at`. */
  add(at: number, count: number): void {
    if (count > 0) this.#grants.push({ at, count })
  }

  /** Number of tokens that have not expired. */
  left(now: number): number {
    this.#forget(now)
    return this.#grants.reduce((sum, { count }) => sum + count, 0)
  }

  /** When the next token is due; `undefined`: there is none. */
  next(now: number): number | undefined {
    this.#forget(now)
    return this.#grants[0]?.at
  }

  /** Uses the first token. */
  use(): void {
    this.#drop(1)
  }

  /**
   * Tokens to take at least with the next write. It doubles while all tokens are used, so that a high rate costs few
   * writes.
   */
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
