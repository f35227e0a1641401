/**
 * When tasks come again that found no room: in proportion to their place in line, so that ten thousand that wait cost little.
 * Rather too early than too late: one that comes early stays in its queue until there is room, while permits of a limit would
 * be idle if all its tasks came late. Pure: clock and randomness come from outside.
 */

/** Those that come one after the other come together: each for itself would cost a look into the queue. */
const TOGETHER_MS = 100
/** A line is taken to have so many at least. */
const LEAST_LENGTH = 50
/** The first to be put off are not back before the worker has come to those behind them. */
const LEAST_EACH_MS = 2
/** A line that hardly moves: each of its tasks comes so often at least, by its length. */
const MOST_EACH_MS = 5
/** After so many starts it is known how fast a line moves. */
const KNOWN_STARTS = 16
export const LONGEST_WAIT_MS = 5 * 60_000
/** After so many starts the older half counts no more. */
const MOST_STARTS = 64

export class Line {
  readonly #phase: number
  /** Since when starts are counted, while tasks wait. */
  #since: number | undefined
  #starts = 0
  /** When the last one of those that were put off comes. */
  #end = 0
  #length = 0

  /** `phase`: when those that come together come, so that the workers do not all look at the same moment. */
  constructor(phase = TOGETHER_MS * Math.random()) {
    this.#phase = phase
  }

  /** When the last one comes, in milliseconds; in the past when none is expected. */
  get end(): number {
    return this.#end
  }

  /** Whether tasks wait. Only while some do, starts show how fast the line moves. */
  waits(some: boolean, now: number): void {
    if (!some) this.#since = undefined
    else if (this.#since === undefined) {
      this.#since = now
      this.#starts = 0
    }
  }

  /** One has started. */
  started(now: number): void {
    if (this.#since === undefined) return
    this.#starts++
    if (this.#starts < MOST_STARTS) return
    this.#starts /= 2
    this.#since += (now - this.#since) / 2
  }

  /** One of those that were put off is here again. */
  back(): void {
    this.#length = Math.max(0, this.#length - 1)
  }

  /** Milliseconds from one start to the next. */
  spacing(now: number): number {
    return this.#since === undefined ? 0 : (now - this.#since) / (this.#starts + 1)
  }

  /** Milliseconds until a task should come again that was delivered so many times. `random`: 0 to 1. */
  putOff(now: number, deliveries: number, random: number): number {
    if (this.#end <= now) this.#length = 0
    this.#length++
    // Half of the time that the line will take: how fast it moves is not known well, and at first not at all.
    const isKnown = deliveries > 1 || this.#starts >= KNOWN_STARTS
    const each = isKnown ? Math.min(MOST_EACH_MS, Math.max(LEAST_EACH_MS, this.spacing(now) / 2)) : LEAST_EACH_MS
    const delay = Math.max(LEAST_LENGTH, this.#length) * each * (0.75 + random / 2)
    const end = now + Math.min(delay, LONGEST_WAIT_MS - TOGETHER_MS)
    const at = Math.ceil((end - this.#phase) / TOGETHER_MS) * TOGETHER_MS + this.#phase
    this.#end = Math.max(this.#end, at)
    return at - now
  }
}
