/**
 * A message of a consumer as a delivery, and its token. The acknowledgement subject tells the sequence in the stream
 * and how often the message was handed over: together they rise over all deliveries of a task.
 */
import type { Msg } from "nats"
import type { Delivery } from "../../../runtime/transport/driver.ts"
import type { Lane } from "./consumers.ts"

/** What a token says. */
export interface Token {
  /** Of the transport at which the delivery arrived. */
  readonly nonce: string
  /** Counts the deliveries of that transport. */
  readonly number: number
  /** Where acknowledgements go. */
  readonly ack: string
  readonly consumer: string
  /** Sequence of the message in the queue stream. */
  readonly seq: number
  /** When the delivery arrived, by the clock of the process that got it. */
  readonly receivedAt: number
  /** When its lease lapses, as far as this thread knows; kept by the ledger. 0: the delivery is over. */
  until: number
}

/** What arrived, with its token already read. */
export interface Received {
  readonly delivery: Delivery
  readonly token: Token
}

const SEQ_DIGITS = 11
const COUNT_DIGITS = 6
const TIME_DIGITS = 9
const NONCE_DIGITS = 6

const ZEROS = "0".repeat(SEQ_DIGITS)

/** A number as text of fixed length, so that text compares as numbers do. */
const digits = (number: number, count: number): string => {
  const text = number.toString(36)
  return ZEROS.slice(0, count - text.length) + text
}

interface AckParts {
  readonly consumer: string
  readonly deliveries: number
  readonly seq: number
}

/** Positions in an acknowledgement subject. From 2.15 on servers may name domain and account too (js_ack_fc_v2). */
const partsOf = (ack: string): AckParts | undefined => {
  const parts = ack.split(".")
  const shift = parts.length === 9 ? 0 : 2
  const consumer = parts[3 + shift]
  const deliveries = Number(parts[4 + shift])
  const seq = Number(parts[5 + shift])
  return consumer !== undefined && deliveries > 0 && seq > 0 ? { consumer, deliveries, seq } : undefined
}

/** The consumer that an acknowledgement goes to. */
export const consumerOf = (ack: string): string | undefined => partsOf(ack)?.consumer

/** The same for a lane whose acknowledgements begin as expected, which needs no splitting. */
const partsIn = (ack: string, { acks, consumer }: Lane): AckParts | undefined => {
  if (!ack.startsWith(acks)) return partsOf(ack)
  const seqAt = ack.indexOf(".", acks.length) + 1
  const deliveries = Number.parseInt(ack.slice(acks.length, seqAt), 10)
  const seq = Number.parseInt(ack.slice(seqAt, ack.indexOf(".", seqAt)), 10)
  return deliveries > 0 && seq > 0 ? { consumer, deliveries, seq } : undefined
}

const FIRST = digits(1, COUNT_DIGITS)

/** Reads deliveries for one transport, and tells them apart from those of others. */
export class DeliveryFactory {
  /**
   * Tells transports apart, and with them deliveries of the same count: a server that was killed may not remember the
   * last of what it handed over, and a consumer that was made anew begins to count anew.
   */
  readonly nonce = Math.floor(Math.random() * 36 ** NONCE_DIGITS)
    .toString(36)
    .padStart(NONCE_DIGITS, "0")
  /** Time and nonce are the same for all deliveries of a millisecond. */
  #end = { at: 0, text: "" }
  #count = 0

  /** A message of a lane's consumer. `undefined` when it is none: nobody but the server sends there. */
  create(message: Msg, ack: string, lane: Lane, receivedAt: number): Received | undefined {
    const parts = partsIn(ack, lane)
    if (parts === undefined) return undefined
    const { consumer, deliveries, seq } = parts
    // A consumer hands over upward: what is not above the last one came before, whatever a killed server remembers.
    const first = deliveries === 1 && seq > lane.highest
    if (seq > lane.highest) lane.highest = seq
    const fence = this.#fence(seq, deliveries, receivedAt)
    const number = ++this.#count
    return {
      delivery: {
        token: `${this.nonce}.${number}.${receivedAt.toString(36)}.${ack.slice(ACK_PREFIX.length)}`,
        fence,
        queue: lane.queue,
        level: lane.band,
        sequence: seq,
        first,
        deliveries,
        // A copy: the client's buffer holds many messages, and would stay in memory while one of them is in use.
        content: message.data.slice(),
      },
      token: { nonce: this.nonce, number, ack, consumer, seq, receivedAt, until: 0 },
    }
  }

  #fence(seq: number, deliveries: number, receivedAt: number): string {
    if (this.#end.at !== receivedAt) this.#end = { at: receivedAt, text: digits(receivedAt, TIME_DIGITS) + this.nonce }
    const count = deliveries === 1 ? FIRST : digits(deliveries, COUNT_DIGITS)
    return digits(seq, SEQ_DIGITS) + count + this.#end.text
  }
}

const ACK_PREFIX = "$JS.ACK."

const TOKEN = /^([0-9a-z]{6})\.(\d{1,15})\.([0-9a-z]{1,10})\.(\S+)$/

/** Number of a delivery that arrived at the transport of this nonce, out of its token. */
export const numberIn = (text: string, nonce: string): number | undefined =>
  text.startsWith(nonce) ? Number.parseInt(text.slice(NONCE_DIGITS + 1, NONCE_DIGITS + 17), 10) : undefined

/** Reads a token; `undefined` for what never was one. */
export const readToken = (text: string): Token | undefined => {
  const [, nonce, number, time = "", rest] = TOKEN.exec(text) ?? []
  const ack = ACK_PREFIX + rest
  const parts = rest === undefined ? undefined : partsOf(ack)
  if (nonce === undefined || parts === undefined) return undefined
  const { consumer, seq } = parts
  return { nonce, number: Number(number), ack, consumer, seq, receivedAt: Number.parseInt(time, 36), until: 0 }
}
