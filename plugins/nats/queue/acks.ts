/**
 * Acknowledgements, many at a time. A consumer handles them in order, so that only the last one to each consumer asks
 * for an answer: when it comes, the others have been handled too.
 */
import type { TransportError } from "../../../runtime/transport/mod.ts"
import { ofClient } from "../connection/errors.ts"
import { ANSWER_MS, type Link } from "../connection/link.ts"

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
      const token = this.#link.inbox.ask({
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
        this.#link.inbox.forget(token)
        unanswered.set(consumer, ofClient(error, ack))
        resolve()
      }
    })
  }
}
