/**
 * Acknowledgements, many at a time. A consumer handles them in order, so that only the last one to each consumer asks
 * for an answer: when it comes, the others have been handled too.
 */
import type { TransportError } from "../../runtime/transport.ts"
import { ANSWER_MS, type Link } from "./link.ts"

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

/**
 * Sends all and resolves once the server has handled them, with why it may not have for each consumer that did not
 * answer. Rejects when nothing was sent.
 */
export const sendAcks = async (link: Link, acks: ReadonlyArray<Ack>): Promise<ReadonlyMap<string, TransportError>> => {
  const unanswered = new Map<string, TransportError>()
  if (acks.length === 0) return unanswered
  await link.ready()
  const last = new Map<string, Ack>()
  for (const ack of acks) last.set(ack.consumer, ack)
  const answers: Array<Promise<void>> = []
  for (const ack of acks) {
    if (last.get(ack.consumer) === ack) answers.push(confirm(link, ack, unanswered))
    else link.send(ack.ack, ack.payload)
  }
  await Promise.all(answers)
  return unanswered
}

const confirm = (link: Link, { ack, consumer, payload }: Ack, unanswered: Map<string, TransportError>): Promise<void> =>
  new Promise((resolve) => {
    const token = link.inbox.ask({
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
    link.send(ack, payload, link.inbox.reply(token))
  })
