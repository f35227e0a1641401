/**
 * The number of tasks that may be fetched ahead. After a broken connection running handlers go on, so less is fetched
 * at first; each task that ends raises the number by one multiplier.
 */
export class PrefetchQos {
  readonly #multiplier: number
  #reduced: number | undefined

  /** `multiplier`: tasks per handler. */
  constructor(multiplier: number) {
    this.#multiplier = multiplier
  }

  /** Tasks that may be fetched now; `max`: the number when nothing is reduced. */
  limit(max: number): number {
    return Math.min(max, this.#reduced ?? max)
  }

  /** Reduces the number while `running` tasks run. Returns the new number. */
  reduce(max: number, running: number): number {
    const reduced = Math.max(this.#multiplier, max - running * this.#multiplier)
    this.#reduced = reduced < max ? reduced : undefined
    return this.limit(max)
  }

  /** A task has ended. True if the number is back at `max` with it. */
  restore(max: number): boolean {
    if (this.#reduced === undefined) return false
    this.#reduced += this.#multiplier
    if (this.#reduced < max) return false
    this.#reduced = undefined
    return true
  }
}

/** Log lines for a reduced prefetch count. */
export const reductionLines = (limit: number, max: number, running: number): ReadonlyArray<string> => [
  `Temporarily reducing the prefetch count to ${limit} to avoid over-fetching since ${running} tasks are currently being processed.`,
  `The prefetch count will be gradually restored to ${max} as the tasks complete processing.`,
]

/** Log line for a restored prefetch count. */
export const restoredLine = (max: number): string =>
  `Resuming normal operations following a restart. Prefetch count has been restored to the maximum of ${max}`
