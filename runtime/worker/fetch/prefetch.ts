/**
 * How many tasks may be fetched ahead. After a broken connection what ran goes on, so less is fetched at first, and one
 * multiplier more with each task that ends.
 */
export class PrefetchQos {
  readonly #multiplier: number
  #reduced: number | undefined

  /** `multiplier`: tasks per handler. */
  constructor(multiplier: number) {
    this.#multiplier = multiplier
  }

  /** What may be fetched of the `max` that it is in good times. */
  limit(max: number): number {
    return Math.min(max, this.#reduced ?? max)
  }

  /** Reduces it while so many tasks run; returns what is left. */
  reduce(max: number, running: number): number {
    const reduced = Math.max(this.#multiplier, max - running * this.#multiplier)
    this.#reduced = reduced < max ? reduced : undefined
    return this.limit(max)
  }

  /** A task has ended. True when that was the last step back to `max`. */
  restore(max: number): boolean {
    if (this.#reduced === undefined) return false
    this.#reduced += this.#multiplier
    if (this.#reduced < max) return false
    this.#reduced = undefined
    return true
  }
}

/** What is said when the prefetch count is reduced. */
export const reductionLines = (limit: number, max: number, running: number): ReadonlyArray<string> => [
  `Temporarily reducing the prefetch count to ${limit} to avoid over-fetching since ${running} tasks are currently being processed.`,
  `The prefetch count will be gradually restored to ${max} as the tasks complete processing.`,
]

/** What is said when it is restored. */
export const restoredLine = (max: number): string =>
  `Resuming normal operations following a restart. Prefetch count has been restored to the maximum of ${max}`
