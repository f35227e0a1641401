/**
 * A message of a consumer as a delivery, and its token. The acknowledgement subject tells the sequence in the stream
 * and how often the message was handed over: together they rise over all deliveries of a task.
 */
import type { Msg } from "nats"
import type { TaskDelivery } from "../../../runtime/transport/driver.ts"
import type { Lane } from "./consumers.ts"

/** What a token says. */
export interface Token {
  readonly fence: string
  /** Number of a delivery that arrived at this very transport, by which it is looked up. */
  readonly number: number | undefined
  /** Where acknowledgements go. */
  readonly ack: string
  readonly consumer: string
  /** Sequence of the message in the queue stream. */
  readonly seq: number
  /** When the delivery arrived, by the clock of the process that got it. */
  readonly receivedAt: number
}

/** What arrived, with its token already read. */
export interface Arrived {
  readonly delivery: TaskDelivery
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

/** Reads deliveries and tokens for one transport, and tells those apart that arrived there. */
export class Mint {
  /**
   * Tells transports apart, and with them deliveries of the same count: a server that was killed may not remember the
   * last of what it handed over, and a consumer that was made anew begins to count anew.
   */
  readonly nonce = Math.floor(Math.random() * 36 ** NONCE_DIGITS)
    .toString(36)
    .padStart(NONCE_DIGITS, "0")
  readonly #own = `${this.nonce}.`
  /** Time and nonce are the same for all deliveries of a millisecond. */
  #end = { at: 0, text: "" }
  #count = 0

  /** A message of a lane's consumer. `undefined` when it is none: nobody but the server sends there. */
  read(message: Msg, ack: string, lane: Lane, receivedAt: number): Arrived | undefined {
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
        token: `${this.#own}${number}.${fence}.${ack}`,
        fence,
        queue: lane.queue,
        level: lane.band,
        sequence: seq,
        first,
        deliveries,
        // A copy: the client's buffer holds many messages, and would stay in memory while one of them is in use.
        content: message.data.slice(),
      },
      token: { fence, number, ack, consumer, seq, receivedAt },
    }
  }

  /** Number of a delivery that arrived at this transport, out of its token. */
  numberIn(text: string): number | undefined {
    const own = this.#own
    return text.startsWith(own) ? Number.parseInt(text.slice(own.length, own.length + 16), 10) : undefined
  }

  /** Reads a token; `undefined` for what never was one. */
  readToken(text: string): Token | undefined {
    const [, fence, ack] = TOKEN.exec(text) ?? []
    const parts = ack === undefined ? undefined : partsOf(ack)
    if (fence === undefined || ack === undefined || parts === undefined) return undefined
    const { consumer, seq } = parts
    const timeAt = SEQ_DIGITS + COUNT_DIGITS
    const receivedAt = Number.parseInt(fence.slice(timeAt, timeAt + TIME_DIGITS), 36)
    return { fence, number: this.numberIn(text), ack, consumer, seq, receivedAt }
  }

  #fence(seq: number, deliveries: number, receivedAt: number): string {
    if (this.#end.at !== receivedAt) this.#end = { at: receivedAt, text: digits(receivedAt, TIME_DIGITS) + this.nonce }
    const count = deliveries === 1 ? FIRST : digits(deliveries, COUNT_DIGITS)
    return digits(seq, SEQ_DIGITS) + count + this.#end.text
  }
}

const TOKEN = /^[0-9a-z]{6}\.\d{1,15}\.([0-9a-z]{32})\.(\$JS\.ACK\.\S+)$/

/** Which transport a delivery arrived at, and its number there. */
export const originOf = (token: string): { readonly nonce: string; readonly number: number } => {
  const [nonce = "", number = ""] = token.split(".", 2)
  return { nonce, number: Number(number) }
}
