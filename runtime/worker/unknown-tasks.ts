/** How long a task that nobody here serves is handed back for: a rolling deploy may bring its actor in a moment. */

/** More unknown tasks than this at a time and the oldest are forgotten: their grace begins anew. */
const CAPACITY = 10_000
const FIRST_DELAY_MS = 1_000
const LONGEST_DELAY_MS = 15_000

export class UnknownTasks {
  readonly #graceMs: number
  readonly #seen = new Map<string, { readonly since: number; times: number }>()

  constructor(graceMs: number) {
    this.#graceMs = graceMs
  }

  /** Milliseconds after which to deliver the task with this publish key again; `undefined` when its grace is over. */
  waitFor(key: string, now: number): number | undefined {
    const seen = this.#seen.get(key) ?? { since: now, times: 0 }
    const left = seen.since + this.#graceMs - now
    if (left <= 0) {
      this.#seen.delete(key)
      return undefined
    }
    if (this.#seen.size >= CAPACITY && !this.#seen.has(key)) {
      const oldest = this.#seen.keys().next()
      if (!oldest.done) this.#seen.delete(oldest.value)
    }
    const delay = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** seen.times)
    seen.times++
    this.#seen.set(key, seen)
    return Math.min(delay, left)
  }
}
