/** Ends values in time for those who watch; nobody else needs a timer, as reading passes over what has ended. */

import type { Writer } from "../writing/writer.ts"
import type { StoreTable } from "./store-table.ts"

/** The longest that a timer can wait is 2³¹ − 1 ms. */
const LONGEST_TIMER = 2 ** 31 - 1

export class StoreExpiry {
  readonly #store: StoreTable
  readonly #writer: Writer
  readonly #watched: () => boolean
  #timer: ReturnType<typeof setTimeout> | undefined
  #at = Number.POSITIVE_INFINITY

  constructor(store: StoreTable, writer: Writer, watched: () => boolean) {
    this.#store = store
    this.#writer = writer
    this.#watched = watched
  }

  /** Sets the timer to the end of the next value. Reads only. */
  set(): void {
    const at = this.#watched() ? this.#nextEnd() : Number.POSITIVE_INFINITY
    if (at === this.#at && this.#timer !== undefined) return
    this.close()
    if (at === Number.POSITIVE_INFINITY) return
    this.#at = at
    this.#timer = setTimeout(() => this.#fire(), Math.min(Math.max(at - Date.now(), 1), LONGEST_TIMER))
    this.#timer.unref()
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#at = Number.POSITIVE_INFINITY
  }

  #fire(): void {
    this.close()
    this.#writer
      .doLightly((transaction) => this.#store.expire(transaction))
      .then(
        () => this.set(),
        () => undefined,
      )
  }

  #nextEnd(): number {
    try {
      return this.#store.nextEnd()
    } catch {
      return Number.POSITIVE_INFINITY
    }
  }
}
