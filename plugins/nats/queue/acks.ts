/**
 * Acknowledgements, many at a time. A consumer handles them in order, so that only the last one to each consumer asks
 * for an answer: when it comes, the others have been handled too.
 */
import type { TransportError } from "../../../runtime/transport/mod.ts"
import { fromClientError } from "../connection/answers.ts"
import { ANSWER_MS, type Link } from "../connection/link.ts"
import type { Token } from "./delivery.ts"

export interface Ack {
  /** Where it goes. */
  readonly ack: string
  readonly consumer: string
  readonly payload: Uint8Array
}

const encoder = new TextEncoder()

export const ACK = encoder.encode("+ACK")
const NAK = encoder.encode("-NAK")
export const IN_PROGRESS = encoder.encode("+WPI")

/** Hands a message back, to be delivered again after `delay` milliseconds. */
export const nak = (delay: number): Uint8Array =>
  delay > 0 ? encoder.encode(`-NAK {"delay":${Math.ceil(delay) * 1_000_000}}`) : NAK

/** Acknowledgements of one batch, sent as they come. */
export class Acks {
  readonly #link: Link
  /** The last one to each consumer is held back, to be the one that asks. */
  readonly #last = new Map<string, Ack>()

  constructor(link: Link) {
    this.#link = link
  }

  add(ack: Ack): void {
    const before = this.#last.get(ack.consumer)
    if (before !== undefined) this.#link.send(before.ack, before.payload)
    this.#last.set(ack.consumer, ack)
  }

  /** Resolves once the server has handled all, with why it may not have for each consumer that did not answer. */
  async finish(): Promise<ReadonlyMap<string, TransportError>> {
    const unanswered = new Map<string, TransportError>()
    await Promise.all([...this.#last.values()].map((ack) => this.#confirm(ack, unanswered)))
    return unanswered
  }

  #confirm({ ack, consumer, payload }: Ack, unanswered: Map<string, TransportError>): Promise<void> {
    return new Promise((resolve) => {
      const token = this.#link.inbox.register({
        subjectOf: () => ack,
        timeout: ANSWER_MS,
        answered: () => {
          resolve()
          return true
        },
        failed: (_, error) => {
          unanswered.set(consumer, error)
          resolve()
        },
      })
      try {
        this.#link.send(ack, payload, this.#link.inbox.reply(token))
      } catch (error) {
        this.#link.inbox.cancel(token)
        unanswered.set(consumer, fromClientError(error, ack))
        resolve()
      }
    })
  }
}

// ── tasks that go back ───────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Tasks that are handed back as if they had never come: uncounted, and without delay. Until the server has them again
 * they are nowhere to be seen, so that whoever asks what there is waits for that.
 */
export class PendingNaks {
  readonly #link: Link
  readonly #underWay = new Set<Promise<unknown>>()

  constructor(link: Link) {
    this.#link = link
    // What was asked over a connection that is gone is never answered: nobody need wait for that.
    link.onStatus(() => this.#underWay.clear())
  }

  /** Has to be over as well before what there is can be seen. */
  track(ending: Promise<unknown>): void {
    const finished = ending.finally(() => this.#underWay.delete(finished))
    this.#underWay.add(finished)
  }

  send(tokens: ReadonlyArray<Pick<Token, "ack" | "consumer">>): void {
    if (tokens.length === 0) return
    const acks = new Acks(this.#link)
    try {
      for (const { ack, consumer } of tokens) acks.add({ ack, consumer, payload: NAK })
    } catch {
      // Without a connection their leases lapse.
    }
    this.track(acks.finish())
  }

  /** Resolves when the server has all of them, or does not answer; `undefined` when it has. */
  get settled(): Promise<unknown> | undefined {
    return this.#underWay.size === 0 ? undefined : Promise.all(this.#underWay)
  }
}
