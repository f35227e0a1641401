/**
 * Detects that this thread was stalled (blocked by a handler, frozen, swapped out). Messages that the server sends
 * meanwhile wait in the socket while their leases run: when they are read, another delivery may have the task, and
 * starting, extending or returning it would take the task from that delivery. Such messages are ignored; the tasks come
 * again when their leases have ended.
 */
import type { NatsLink } from "../connection/link.ts"
import type { ServerClock } from "../connection/server-clock.ts"

/** How often the event loop is checked, four times in a lease at least. An idle worker wakes for each check. */
const TICK_MS = 1_000

/**
 * The share of a lease for which a stall is tolerated: what is left is enough until the next extension, which comes
 * after a third of a lease.
 */
const MAX_STALL_SHARE = 0.6

export class StallGuard {
  readonly #link: NatsLink
  readonly #limit: number
  readonly #tickMs: number
  readonly #clock: ServerClock
  #timer: ReturnType<typeof setInterval> | undefined
  #last = 0
  #trustedFrom = Number.NEGATIVE_INFINITY
  #resync: Promise<void> | undefined

  /** `lease` is in milliseconds. */
  constructor(link: NatsLink, lease: number, clock: ServerClock) {
    this.#link = link
    this.#clock = clock
    this.#limit = lease * MAX_STALL_SHARE
    this.#tickMs = Math.min(TICK_MS, lease / 4)
  }

  /** Starts the checks. To be called before the first pull request. */
  start(): void {
    if (this.#timer !== undefined || this.#link.closing.aborted) return
    this.#last = this.#clock.now()
    this.#timer = setInterval(() => this.#tick(this.#clock.now()), this.#tickMs)
    this.#link.closing.addEventListener("abort", () => clearInterval(this.#timer), { once: true })
  }

  /**
   * Messages received before this time must be ignored, by the clock of the server; `Infinity` after a stall,
   * until the socket has been read.
   */
  trustedFrom(now: number): number {
    this.#tick(now)
    return this.#trustedFrom
  }

  /**
   * After a stall: resolves, and never rejects, when the messages that waited in the socket have been read. Requests
   * sent after that can be trusted.
   */
  get resync(): Promise<void> | undefined {
    this.#tick(this.#clock.now())
    return this.#resync
  }

  #tick(now: number): void {
    // A task that comes before the clock knows how long the machine slept seems to be older than it is.
    if (this.#clock.isInDoubt) void this.#clock.measure().catch(() => undefined)
    const stalled = this.#timer !== undefined && now - this.#last > this.#limit
    this.#last = now
    if (!stalled) return
    this.#trustedFrom = Number.POSITIVE_INFINITY
    // The server answers the flush after all messages that it sent before. A lost connection brings none of them.
    const resync: Promise<void> = this.#link
      .flush()
      .catch(() => undefined)
      .then(() => {
        if (this.#resync !== resync) return
        this.#resync = undefined
        this.#trustedFrom = this.#clock.now()
      })
    this.#resync = resync
  }
}
