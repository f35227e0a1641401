/**
 * Whether this thread turns. What the server hands over while it stands still (blocked by a handler, frozen, swapped out)
 * lies in the socket, and its lease runs: by the time it is read it may be in other hands, and to start it, extend it or
 * hand it back would take it from them. It is left alone, and comes again when its lease has lapsed.
 */
import type { Link } from "../connection/link.ts"

/** How often this thread shows that it turns; a lease is at least a second. */
const TICK_MS = 250

/** The part of a lease that may pass unnoticed: what is left is enough for the next extension, after a third of it. */
const MAX_STALL_SHARE = 0.6

export class StallGuard {
  readonly #link: Link
  readonly #limit: number
  #timer: ReturnType<typeof setInterval> | undefined
  #last = Date.now()
  #trustedFrom = Number.NEGATIVE_INFINITY
  #resync: Promise<void> | undefined

  /** `lease` is the length of one, in milliseconds. */
  constructor(link: Link, lease: number) {
    this.#link = link
    this.#limit = Math.max(2 * TICK_MS, lease * MAX_STALL_SHARE)
  }

  /** To be called before anything is asked for. */
  start(): void {
    if (this.#timer !== undefined || this.#link.closing.aborted) return
    this.#last = Date.now()
    this.#timer = setInterval(() => this.#tick(Date.now()), TICK_MS)
    this.#link.closing.addEventListener("abort", () => clearInterval(this.#timer), { once: true })
  }

  /**
   * From when on what is read is in our hands, in milliseconds since the epoch: what was read before may be in others.
   * `Infinity` while that cannot be told.
   */
  trustedFrom(now: number): number {
    this.#tick(now)
    return this.#trustedFrom
  }

  /** Ends, and never fails, when what lay in the socket has been read: what is asked for after that is sound. */
  get resync(): Promise<void> | undefined {
    this.#tick(Date.now())
    return this.#resync
  }

  #tick(now: number): void {
    const stalled = this.#timer !== undefined && now - this.#last > this.#limit
    this.#last = now
    if (!stalled) return
    this.#trustedFrom = Number.POSITIVE_INFINITY
    // The server answers after all that it had sent before. A connection that is lost brings none of it any more.
    const resync: Promise<void> = this.#link
      .flush()
      .catch(() => undefined)
      .then(() => {
        if (this.#resync !== resync) return
        this.#resync = undefined
        this.#trustedFrom = Date.now()
      })
    this.#resync = resync
  }
}
