/**
 * Remembers the revision of each job that an attempt of this process has written, so that it need not be read again, and the
 * changes of meta data from outside that the attempt does not know of.
 */
import type { MetaChange } from "../../protocol/meta-patch.ts"
import type { Revision } from "../store.ts"

/** More deliveries than a worker has at once. A revision that was dropped is read again. */
const MOST = 16_384

export class Revisions {
  readonly #known = new Map<string, Revision>()
  readonly #changes = new Map<string, MetaChange>()

  /** The key is the runtime's token of the delivery. */
  get(token: string): Revision | undefined {
    // Most deliveries are fresh and have no entry: the map is often empty.
    return this.#known.size > 0 ? this.#known.get(token) : undefined
  }

  set(token: string, revision: Revision): void {
    this.#known.delete(token)
    this.#known.set(token, revision)
    if (this.#known.size <= MOST) return
    // Deliveries whose lease ended are never removed by an end, so the oldest entry is dropped.
    for (const oldest of this.#known.keys()) {
      this.#known.delete(oldest)
      return
    }
  }

  /** A change that was found when the attempt wrote its record over another revision: it goes into what it writes later. */
  setChange(token: string, change: MetaChange): void {
    this.#changes.set(token, change)
  }

  changeOf(token: string): MetaChange | undefined {
    return this.#changes.size > 0 ? this.#changes.get(token) : undefined
  }

  delete(token: string): void {
    if (this.#known.size > 0) this.#known.delete(token)
    if (this.#changes.size > 0) this.#changes.delete(token)
  }
}
