/**
 * Tasks that are handed back as if they had never come: uncounted, and without delay. Until the server has them again
 * they are nowhere to be seen, so that whoever asks what there is waits for that.
 */

import type { Link } from "../connection/link.ts"
import { Acks, nak } from "./acks.ts"
import type { Token } from "./delivery.ts"

const NAK = nak(0)

export class Returns {
  readonly #link: Link
  readonly #underWay = new Set<Promise<unknown>>()

  constructor(link: Link) {
    this.#link = link
    // What was asked over a connection that is gone is never answered: nobody need wait for that.
    link.onStatus(() => this.#underWay.clear())
  }

  /** Has to be over as well before what there is can be seen. */
  follow(ending: Promise<unknown>): void {
    const finished = ending.finally(() => this.#underWay.delete(finished))
    this.#underWay.add(finished)
  }

  give(tokens: ReadonlyArray<Pick<Token, "ack" | "consumer">>): void {
    if (tokens.length === 0) return
    const acks = new Acks(this.#link)
    try {
      for (const { ack, consumer } of tokens) acks.add({ ack, consumer, payload: NAK })
    } catch {
      // Without a connection their leases lapse.
    }
    this.follow(acks.finish())
  }

  /** Resolves when the server has all of them, or does not answer; `undefined` when it has. */
  get settled(): Promise<unknown> | undefined {
    return this.#underWay.size === 0 ? undefined : Promise.all(this.#underWay)
  }
}
