/** What this worker has taken of a high rate and not used yet: it costs no round trip. */

/** What is left lapses. */
const LIFE_MS = 1_000

export class Portion {
  #count = 0
  #until = 0

  get left(): number {
    return this.hasLapsed ? 0 : this.#count
  }

  get hasLapsed(): boolean {
    return this.#until <= Date.now()
  }

  /** So much is left; `isNew`: some of it was taken just now. */
  keep(count: number, isNew: boolean): void {
    this.#count = count
    if (isNew) this.#until = Date.now() + LIFE_MS
  }
}
