/**
 * When tasks come again that found no room: in proportion to their place in line, so that they come about when there is room
 * for them, and ten thousand that wait cost little. Pure: clock and randomness come from outside.
 */

/** A task may come so soon. */
const LEAST_MS = 5
/** Those that come one after the other come together: each for itself would cost a look into the queue. */
const TOGETHER_MS = 100
/** While nothing has started yet nobody knows how fast the line moves. */
const FIRST_MS = 100
const MOST_DOUBLINGS = 6
/** A little more comes than may start: some may have been cancelled. */
const OVERSUPPLY = 0.9
/** One more that waits is looked at so much more seldom. */
const EACH_MS = 5
const SHORTEST_CAP_MS = 2_000
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
    const at = now + this.#delay(now, deliveries, random) - this.#phase
    return Math.ceil(at / TOGETHER_MS) * TOGETHER_MS + this.#phase - now
  }

  #delay(now: number, deliveries: number, random: number): number {
    if (this.#end <= now) this.#length = 0
    this.#length++
    const least = this.#starts > 0 ? LEAST_MS : FIRST_MS * 2 ** Math.min(Math.max(0, deliveries - 1), MOST_DOUBLINGS)
    // A limit that is lifted, or tasks that were cancelled, must not leave others waiting for long.
    const cap = Math.min(LONGEST_WAIT_MS, Math.max(SHORTEST_CAP_MS, this.#length * EACH_MS))
    const turn = Math.max(now + least, this.#end + this.spacing(now) * OVERSUPPLY)
    if (turn > now + cap) {
      this.#end = now + cap
      return cap * (0.5 + random / 2)
    }
    this.#end = turn
    return Math.max(LEAST_MS, (turn - now) * (0.75 + random / 2))
  }
}
