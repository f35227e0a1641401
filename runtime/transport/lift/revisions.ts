/** What the attempts of this process know of the revisions of their jobs. */
import type { Revision } from "../store.ts"

/** More than any worker holds at once. What is forgotten is read again. */
const MOST = 16_384

export class Revisions {
  readonly #known = new Map<string, Revision>()

  /** By the runtime's token of the delivery. */
  get(token: string): Revision | undefined {
    // Most deliveries are of first postings, of which nothing needs to be known.
    return this.#known.size > 0 ? this.#known.get(token) : undefined
  }

  set(token: string, revision: Revision): void {
    this.#known.delete(token)
    this.#known.set(token, revision)
    if (this.#known.size <= MOST) return
    // Deliveries whose leases ended are never settled: the oldest go.
    for (const oldest of this.#known.keys()) {
      this.#known.delete(oldest)
      return
    }
  }

  delete(token: string): void {
    if (this.#known.size > 0) this.#known.delete(token)
  }
}
