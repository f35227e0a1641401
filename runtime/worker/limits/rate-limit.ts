/**
 * A rate that the cluster shares, of one method and tenant, as this worker takes part in it: a portion of a high one at a
 * time. Who is refused gets an appointment; nobody needs to be called.
 */
import type { Log } from "../../log.ts"
import { burstOf, type Rate, take } from "../../rate.ts"
import type { Store } from "../../transport.ts"
import { Line } from "./line.ts"
import { Portion } from "./portion.ts"
import { type Answer, type Asking, placesOf, type Round, Rounds, tooBusy } from "./rounds.ts"
import { changeState } from "./state-change.ts"

export interface RateLimitOptions {
  readonly key: string
  readonly rate: Rate
  readonly store: Store
  readonly log: Log
}

export class RateLimit {
  readonly line = new Line()
  readonly #options: RateLimitOptions
  readonly #rounds: Rounds
  readonly #portion = new Portion()

  constructor(options: RateLimitOptions) {
    const { key, log } = options
    this.#options = options
    this.#rounds = new Rounds({
      key,
      log,
      decide: (asking) => this.#take(asking),
      isDue: () => false,
      onAway: () => undefined,
    })
  }

  /** May one more run? */
  ask(asking: Asking): Promise<Answer> {
    return this.#rounds.ask(asking)
  }

  /** How far apart those who wait should come again, in milliseconds. */
  get spacingMs(): number {
    // A little oversupply: of those who have an appointment some may have been cancelled.
    return this.#options.rate.intervalMs * 0.75
  }

  /** Whether nothing is to be remembered of it. */
  get isIdle(): boolean {
    return !this.#rounds.isBusy && this.#portion.hasLapsed && this.line.end < Date.now()
  }

  settled(): Promise<void> {
    return this.#rounds.settled()
  }

  async #take(asking: ReadonlyArray<Asking>): Promise<Round> {
    const { rate, store, key } = this.#options
    const { left } = this.#portion
    if (left >= asking.length) {
      this.#portion.keep(left - asking.length, false)
      return { admitted: placesOf(asking), waitMs: 0 }
    }
    const round = await changeState<Round>(store, key, (state, now) => {
      const { granted, tat, waitMs } = take(rate, state.tat, now, Math.max(asking.length - left, burstOf(rate)))
      const admitted = placesOf(asking.slice(0, left + granted))
      return {
        state: granted === 0 ? undefined : { ...state, tat },
        answer: { admitted, waitMs },
        done: () => this.#portion.keep(left + granted - admitted.size, granted > 0),
      }
    })
    return round ?? tooBusy()
  }
}
