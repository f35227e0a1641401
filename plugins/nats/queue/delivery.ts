/**
 * Makes deliveries and their tokens of messages of a consumer. The acknowledgement subject holds the sequence in the
 * stream and the number of deliveries: together they rise with every delivery of a task, and begin the fence.
 */
import type { Msg } from "nats"
import { decodeEnvelope, isFrame } from "../../../runtime/protocol/envelope.ts"
import { isUndecodable, type Message, type Undecodable } from "../../../runtime/protocol/message.ts"
import type { Delivery } from "../../../runtime/transport/driver.ts"
import { copyOf } from "../connection/answers.ts"
import { numberFrom } from "../connection/digits.ts"
import { blockOf } from "../connection/header-block.ts"
import type { Lane } from "./consumers.ts"
import { readNative } from "./native.ts"

/** The parts of a token. */
export interface Token {
  /** Identifies the transport that received the delivery. */
  readonly nonce: string
  /** Number of the delivery at that transport. */
  readonly number: number
  /** Subject of acknowledgements. */
  readonly ack: string
  readonly consumer: string
  /** Sequence of the message in the queue stream. */
  readonly seq: number
  /** When the delivery was received, in whole milliseconds since the epoch by the clock of the server. */
  readonly receivedAt: number
  /** When its lease ends, as far as this process knows; kept by {@link DeliveryTracker}. 0: the delivery has ended. */
  until: number
}

/** A received delivery, and its token in parts. */
export interface Received {
  readonly delivery: Delivery
  readonly token: Token
}

const SEQ_DIGITS = 11
const COUNT_DIGITS = 6
const TIME_DIGITS = 9
const NONCE_DIGITS = 6

/** Zeros, by how many they are. */
const ZEROS = Array.from({ length: SEQ_DIGITS }, (_, count) => "0".repeat(count))

/** A number as text of fixed length, so that texts sort as the numbers do. */
const digits = (number: number, count: number): string => padded(number.toString(36), count)

const padded = (text: string, count: number): string => (ZEROS[count - text.length] ?? "") + text

interface AckParts {
  readonly consumer: string
  readonly deliveries: number
  readonly seq: number
}

/** Splits an acknowledgement subject. From 2.15 on servers may put domain and account in front (`js_ack_fc_v2`). */
const partsOf = (ack: string): AckParts | undefined => {
  const parts = ack.split(".")
  const shift = parts.length === 9 ? 0 : 2
  const consumer = parts[3 + shift]
  const deliveries = Number(parts[4 + shift])
  const seq = Number(parts[5 + shift])
  return consumer !== undefined && deliveries > 0 && seq > 0 ? { consumer, deliveries, seq } : undefined
}

/** The consumer in an acknowledgement subject. */
export const consumerOf = (ack: string): string | undefined => partsOf(ack)?.consumer

/** Like {@link partsOf}, without splitting the text if it begins as expected for this lane. */
const partsIn = (ack: string, { acks, consumer }: Lane): AckParts | undefined => {
  if (!ack.startsWith(acks)) return partsOf(ack)
  const deliveries = numberFrom(ack, acks.length)
  const seq = numberFrom(ack, ack.indexOf(".", acks.length) + 1)
  return deliveries > 0 && seq > 0 ? { consumer, deliveries, seq } : undefined
}

/** The message of a frame in the client's buffer. It is decoded there, so that only its body has to be copied. */
const messageIn = (frame: Uint8Array): Message | Undecodable => {
  const message = decodeEnvelope(frame)
  if (isUndecodable(message)) return { undecodable: message.undecodable, raw: copyOf(message.raw) }
  return { headers: message.headers, properties: message.properties, body: copyOf(message.body) }
}

/** Makes the deliveries of one transport. */
export class DeliveryFactory {
  /**
   * Identifies this transport, and makes fences of equal sequence and count differ: a killed server may have forgotten
   * the last deliveries, and a new consumer counts from one again.
   */
  readonly nonce = Math.floor(Math.random() * 36 ** NONCE_DIGITS)
    .toString(36)
    .padStart(NONCE_DIGITS, "0")
  /**
   * When the last delivery was received, as it stands in the token, in the fence, and behind the sequence in the fence of a
   * first delivery: many come in one millisecond.
   */
  #received = { at: -1, inToken: "", inFence: "", inFirst: "" }
  /** How tokens begin. */
  readonly #begin = `${this.nonce}.`
  #count = 0
  readonly #maxTask: number

  /** `maxTask`: largest task, in bytes. */
  constructor(maxTask: number) {
    this.#maxTask = maxTask
  }

  /**
   * A delivery of a lane's message. `undefined` if the acknowledgement subject cannot be read; only the server sends to
   * this inbox.
   */
  create(message: Msg, ack: string, lane: Lane, receivedAt: number): Received | undefined {
    const parts = partsIn(ack, lane)
    if (parts === undefined) return undefined
    const { consumer, deliveries, seq } = parts
    const { band } = lane
    const { data } = message
    // A consumer delivers new messages in rising order. A message that is not above the last one was delivered before,
    // even if the server was killed and has forgotten that.
    const first = deliveries === 1 && seq > lane.highest
    if (seq > lane.highest) lane.highest = seq
    if (this.#received.at !== receivedAt) this.#received = this.#receivedAt(receivedAt)
    const { inToken, inFence, inFirst } = this.#received
    const number = ++this.#count
    const isFramed = isFrame(data)
    return {
      delivery: {
        token: `${this.#begin}${number}${inToken}${ack.slice(ACK_PREFIX.length)}`,
        fence: digits(seq, SEQ_DIGITS) + (deliveries === 1 ? inFirst : digits(deliveries, COUNT_DIGITS) + inFence),
        queue: lane.queue,
        level: band,
        sequence: seq,
        first,
        deliveries,
        external: !isFramed,
        content: isFramed
          ? messageIn(data)
          : readNative({ subject: message.subject, band, block: blockOf(message), data }, this.#maxTask),
      },
      token: { nonce: this.nonce, number, ack, consumer, seq, receivedAt, until: 0 },
    }
  }

  #receivedAt(at: number): {
    readonly at: number
    readonly inToken: string
    readonly inFence: string
    readonly inFirst: string
  } {
    const text = at.toString(36)
    const inFence = padded(text, TIME_DIGITS) + this.nonce
    return { at, inToken: `.${text}.`, inFence, inFirst: digits(1, COUNT_DIGITS) + inFence }
  }
}

const ACK_PREFIX = "$JS.ACK."

const TOKEN = /^([0-9a-z]{6})\.(\d{1,15})\.([0-9a-z]{1,10})\.(\S+)$/

/** The number in a token, if this transport received the delivery. */
export const numberIn = (text: string, nonce: string): number | undefined =>
  text.startsWith(nonce) ? numberFrom(text, NONCE_DIGITS + 1) : undefined

/** Splits a token; `undefined` if the text is not a token. */
export const readToken = (text: string): Token | undefined => {
  const [, nonce, number, time = "", rest] = TOKEN.exec(text) ?? []
  const ack = ACK_PREFIX + rest
  const parts = rest === undefined ? undefined : partsOf(ack)
  if (nonce === undefined || parts === undefined) return undefined
  const { consumer, seq } = parts
  return { nonce, number: Number(number), ack, consumer, seq, receivedAt: Number.parseInt(time, 36), until: 0 }
}
