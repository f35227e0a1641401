/** Tells progress a few times a second at most: a handler may say it in a tight loop, and the last value wins. */

/** Shorter than how often the worker writes progress. */
const EVERY_MS = 100

export interface Said {
  readonly fraction: number
  readonly detail?: string
}

export class ProgressNews {
  readonly #tell: (said: Said) => void
  #last: Said | undefined
  #toldAt = Number.NEGATIVE_INFINITY
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(tell: (said: Said) => void) {
    this.#tell = tell
  }

  say(said: Said): void {
    this.#last = said
    const wait = this.#toldAt + EVERY_MS - performance.now()
    if (wait <= 0) this.finish()
    else this.#timer ??= setTimeout(() => this.finish(), wait)
  }

  /** Tells what has not been told. */
  finish(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#last === undefined) return
    this.#toldAt = performance.now()
    this.#tell(this.#last)
    this.#last = undefined
  }
}
