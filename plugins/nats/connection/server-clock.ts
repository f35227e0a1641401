/**
 * The time of the server, as this process knows it. Leases are counted by it, since the wall clock of a worker may be
 * set while tasks are under way, and since every thread and process that connects to the server knows the same time:
 * the thread that extends leases goes by times that the main thread has noted.
 *
 * The time is asked of the server now and then, and carried on by the monotonic clock in between. When the machine
 * sleeps that clock may stand still, while leases run at the server. Then the wall clock, which is set when the machine
 * wakes up, has moved on without the monotonic clock. So it has after an operator has set it, and the server is asked
 * which of the two happened.
 */

/** What a clock reads, in milliseconds. A test sets them. */
export interface Readings {
  readonly wall: () => number
  readonly monotonic: () => number
}

const systemReadings: Readings = { wall: () => Date.now(), monotonic: () => performance.now() }

/** How far the wall clock may move without the monotonic clock before the server is asked. */
const TOLERANCE_MS = 500

/** How old an answer of the server may become; clocks of two machines drift apart by a few milliseconds meanwhile. */
const FRESH_MS = 30_000

/** An answer that took longer is asked for again, as it does not say when in that time the server gave it. */
const QUICK_MS = 100
const TRIES = 3

export class ServerClock {
  readonly #ask: () => Promise<number>
  readonly #readings: Readings
  /** The server's time minus the monotonic clock. */
  #offset = 0
  /** The wall clock minus the monotonic clock, when the server was asked last. */
  #gap = 0
  #askedAt = Number.NEGATIVE_INFINITY
  #asking: Promise<void> | undefined

  /** `ask` gets the server's time in milliseconds since the epoch. */
  constructor(ask: () => Promise<number>, readings = systemReadings) {
    this.#ask = ask
    this.#readings = readings
  }

  /** The server's time in whole milliseconds since the epoch. To be called after the first {@link measure}. */
  now(): number {
    return Math.round(this.#readings.monotonic() + this.#offset)
  }

  /** Whether this machine may have slept since the server was asked last. */
  get isInDoubt(): boolean {
    const { wall, monotonic } = this.#readings
    return Math.abs(wall() - monotonic() - this.#gap) > TOLERANCE_MS
  }

  /** Resolves when {@link now} is certain, at once as a rule. Fails when the server does not answer. */
  async certain(): Promise<void> {
    if (this.isInDoubt) await this.measure()
    // An answer that is only old is good enough for this call.
    else if (this.#isOld) void this.measure().catch(() => undefined)
  }

  /** Resolves when the server was asked lately. Fails when it does not answer. */
  async fresh(): Promise<void> {
    if (this.isInDoubt || this.#isOld) await this.measure()
  }

  /**
   * Asks the server, again up to `tries` times where its answer takes long. A slow answer to a single question counts as old
   * at once: it is enough to begin with.
   */
  measure(tries = TRIES): Promise<void> {
    this.#asking ??= this.#measure(tries).finally(() => {
      this.#asking = undefined
    })
    return this.#asking
  }

  get #isOld(): boolean {
    return this.#readings.monotonic() - this.#askedAt > FRESH_MS
  }

  async #measure(max: number): Promise<void> {
    const { wall, monotonic } = this.#readings
    const wasInDoubt = this.isInDoubt
    const gap = wall() - monotonic()
    let best = { took: Number.POSITIVE_INFINITY, latest: 0 }
    for (let tries = 0; tries < max && best.took > QUICK_MS; tries++) {
      const start = monotonic()
      const server = await this.#ask()
      const took = monotonic() - start
      if (took < best.took) best = { took, latest: server - start }
    }
    const { took, latest } = best
    // A thread that is blocked again and again reads each answer late, and knows better what time it is.
    const isPossible = this.#offset <= latest && this.#offset >= latest - took
    if (wasInDoubt || !isPossible) this.#offset = latest - took / 2
    this.#gap = gap
    if (took <= QUICK_MS || max > 1) this.#askedAt = monotonic()
  }
}
