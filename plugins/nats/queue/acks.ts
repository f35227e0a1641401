/**
 * Acknowledgements in batches. A consumer handles them in order, so that only the last one to each consumer asks for a
 * reply: when that comes, the server has handled the others as well.
 */
import { encoder } from "../../../runtime/protocol/text.ts"
import type { TransportError } from "../../../runtime/transport/mod.ts"
import { fromClientError } from "../connection/answers.ts"
import { ANSWER_MS, type NatsLink } from "../connection/link.ts"
import type { Token } from "./delivery.ts"

/** The last acknowledgement to a consumer. */
interface Last {
  /** The acknowledgement subject of the delivery. */
  ack: string
  payload: Uint8Array
}

export const ACK = encoder.encode("+ACK")
const NAK = encoder.encode("-NAK")
export const IN_PROGRESS = encoder.encode("+WPI")

/** The payload that returns a message, to be delivered again after `delay` milliseconds. */
export const nak = (delay: number): Uint8Array =>
  delay > 0 ? encoder.encode(`-NAK {"delay":${Math.ceil(delay) * 1_000_000}}`) : NAK

/** The acknowledgements of one batch; each is sent when it is added, apart from the last one to each consumer. */
export class Acks {
  readonly #link: NatsLink
  /** The last acknowledgement to each consumer, held back to be sent with a reply subject. */
  readonly #last = new Map<string, Last>()

  constructor(link: NatsLink) {
    this.#link = link
  }

  add({ ack, consumer }: Pick<Token, "ack" | "consumer">, payload: Uint8Array): void {
    const last = this.#last.get(consumer)
    if (last === undefined) this.#last.set(consumer, { ack, payload })
    else {
      this.#link.send(last.ack, last.payload)
      last.ack = ack
      last.payload = payload
    }
  }

  /**
   * Resolves once the server has handled all acknowledgements, with an error for each consumer that did not reply. `soon`:
   * nothing waits for that, so that they may go out with other messages.
   */
  async finish(soon = false): Promise<ReadonlyMap<string, TransportError>> {
    const unanswered = new Map<string, TransportError>()
    await Promise.all([...this.#last].map(([consumer, last]) => this.#confirm(consumer, last, unanswered, soon)))
    return unanswered
  }

  #confirm(
    consumer: string,
    { ack, payload }: Last,
    unanswered: Map<string, TransportError>,
    soon: boolean,
  ): Promise<void> {
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
      const send = (): void => {
        try {
          this.#link.send(ack, payload, this.#link.inbox.reply(token))
        } catch (error) {
          this.#link.inbox.cancel(token)
          unanswered.set(consumer, fromClientError(error, ack))
          resolve()
        }
      }
      if (soon) this.#link.soon(send)
      else send()
    })
  }
}

// ── tasks that go back ───────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Returns tasks that no caller has seen: undelayed, and as if they had not been delivered. Until the server has handled
 * the nak, such a task is in no answer of a consumer, so that the next fetch waits for that.
 */
export class PendingNaks {
  readonly #link: NatsLink
  readonly #underWay = new Set<Promise<unknown>>()

  constructor(link: NatsLink) {
    this.#link = link
    // A nak that was sent over a lost connection gets no reply, so that there is nothing to wait for.
    link.onStatus(() => this.#underWay.clear())
  }

  /** Adds an ending session to what {@link settled} waits for: tasks may be on their way to it. */
  track(ending: Promise<unknown>): void {
    const finished = ending.finally(() => this.#underWay.delete(finished))
    this.#underWay.add(finished)
  }

  send(tokens: ReadonlyArray<Pick<Token, "ack" | "consumer">>): void {
    if (tokens.length === 0) return
    const acks = new Acks(this.#link)
    try {
      for (const token of tokens) acks.add(token, NAK)
    } catch {
      // There is no connection: the leases of these tasks will end.
    }
    this.track(acks.finish())
  }

  /** Resolves when the server has handled all naks, or does not reply; `undefined` if none is open. */
  get settled(): Promise<unknown> | undefined {
    return this.#underWay.size === 0 ? undefined : Promise.all(this.#underWay)
  }
}
