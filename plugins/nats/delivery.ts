/**
 * A message of a consumer as a delivery, and its token. The acknowledgement subject tells the sequence in the stream
 * and how often the message was handed over: together they rise over all deliveries of a job.
 */
import type { Msg } from "nats"
import { decodeEnvelope } from "../../runtime/protocol/envelope.ts"
import type { Delivery } from "../../runtime/transport.ts"
import type { Names } from "./subject.ts"

/** What a token says. */
export interface Token {
  readonly fence: string
  /** Nothing but this delivery can have written about the job. */
  readonly fresh: boolean
  readonly idToken: string
  /** Where acknowledgements go. */
  readonly ack: string
  readonly consumer: string
  /** Sequence of the message in the queue stream. */
  readonly seq: number
  /** When the delivery arrived, by the clock of the process that got it. */
  readonly receivedAt: number
}

const SEQ_DIGITS = 11
const COUNT_DIGITS = 6
const TIME_DIGITS = 9
const NONCE_DIGITS = 4

/**
 * Tells apart deliveries of the same count: a server that was killed may not remember the last of what it handed over,
 * and a consumer that was made anew begins to count anew.
 */
const nonce = Math.floor(Math.random() * 36 ** NONCE_DIGITS)
  .toString(36)
  .padStart(NONCE_DIGITS, "0")

const digits = (number: number, count: number): string => number.toString(36).padStart(count, "0")

const fenceOf = (seq: number, deliveries: number, receivedAt: number): string =>
  digits(seq, SEQ_DIGITS) + digits(deliveries, COUNT_DIGITS) + digits(receivedAt, TIME_DIGITS) + nonce

/** Positions in an acknowledgement subject. From 2.15 on servers may name domain and account too (js_ack_fc_v2). */
const partsOf = (ack: string): { consumer: string; deliveries: number; seq: number } | undefined => {
  const parts = ack.split(".")
  const shift = parts.length === 9 ? 0 : 2
  const consumer = parts[3 + shift]
  const deliveries = Number(parts[4 + shift])
  const seq = Number(parts[5 + shift])
  return consumer !== undefined && deliveries > 0 && seq > 0 ? { consumer, deliveries, seq } : undefined
}

/** A message from a consumer. `undefined` when it is none: nobody but the server sends there. */
export const readDelivery = (message: Msg, names: Names, receivedAt: number): Delivery | undefined => {
  const ack = message.reply
  const address = names.parseTask(message.subject)
  const parts = ack === undefined ? undefined : partsOf(ack)
  if (address === undefined || parts === undefined || ack === undefined) return undefined
  const { deliveries, seq } = parts
  const fresh = address.unrecorded && deliveries === 1
  const fence = fenceOf(seq, deliveries, receivedAt)
  return {
    token: `${fence}.${fresh ? "f" : "c"}.${address.idToken}.${ack}`,
    fence,
    queue: address.queue,
    level: address.band,
    sequence: seq,
    fresh,
    deliveries,
    message: decodeEnvelope(message.data),
  }
}

const TOKEN = /^([0-9a-z]{30})\.([fc])\.([^.\s]+)\.(\$JS\.ACK\.\S+)$/

/** Reads a token; `undefined` for what never was one. */
export const readToken = (text: string): Token | undefined => {
  const [, fence, flag, idToken, ack] = TOKEN.exec(text) ?? []
  if (fence === undefined || idToken === undefined || ack === undefined) return undefined
  const parts = partsOf(ack)
  if (parts === undefined) return undefined
  const { consumer, seq } = parts
  const timeAt = SEQ_DIGITS + COUNT_DIGITS
  const receivedAt = Number.parseInt(fence.slice(timeAt, timeAt + TIME_DIGITS), 36)
  return { fence, fresh: flag === "f", idToken, ack, consumer, seq, receivedAt }
}
