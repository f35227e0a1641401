/**
 * Publishes messages to streams in batches, with one promise per batch. The server's answer is reported per message; a
 * message is sent again only if the server could not decide on it yet.
 */
import type { Msg } from "nats"
import { decoder } from "../../../runtime/protocol/text.ts"
import { TransportError } from "../../../runtime/transport/mod.ts"
import { sleep } from "../../../runtime/transport/timers.ts"
import { asTransportError, at, BUSY, CODE, errorIn, fromApiError, hasNoRoom, numberAt } from "../connection/answers.ts"
import { MAX_REQUESTS } from "../connection/inbox.ts"
import { ANSWER_MS, type NatsLink } from "../connection/link.ts"
import type { WriteHealth } from "./write-health.ts"

export interface Outgoing {
  readonly subject: string
  /** Lines that end in CRLF; may be empty. */
  readonly headers: string
  readonly payload: Uint8Array
}

/** The result for one message. */
export type Published =
  | { readonly status: "stored"; readonly seq: number; readonly duplicate: boolean }
  /** The expected sequence did not match. */
  | { readonly status: "conflict" }
  | { readonly status: "failed"; readonly error: TransportError }

/** `busy`: another client is writing the same subject or key, and the server decides on this message after that one. */
type Answer =
  | Published
  | { readonly status: "busy"; readonly error: TransportError }
  | { readonly status: "no-room"; readonly error: TransportError }

/**
 * Most messages, and bytes, that await their acknowledgement: more are not faster, and each waits longer. The client's
 * buffer is not bounded, and a stream refuses messages beyond its limit (10,000 in nats-server 2.15).
 */
const WINDOW = 1024
const WINDOW_BYTES = 32 * 1024 * 1024

/** A longer batch is sent in parts, so that the window need not be empty before it can begin. */
const MAX_PART = MAX_REQUESTS

/**
 * Pause before a message is sent again that the server could not decide on: at first, and at most. It doubles each
 * time.
 */
const BUSY_MS = 4
const MAX_BUSY_MS = 500

const CONFLICT: Published = { status: "conflict" }

/** A part of a batch that waits for room in the window. */
interface WindowWaiter {
  readonly count: number
  readonly bytes: number
  readonly go: () => void
}

export class StreamPublisher {
  readonly #link: NatsLink
  readonly #writeHealth: Pick<WriteHealth, "refused" | "unanswered" | "answered"> | undefined
  readonly #waiting: Array<WindowWaiter> = []
  #messages = 0
  #bytes = 0

  /** `writeHealth` is called with messages that the server did not store. */
  constructor(link: NatsLink, writeHealth?: Pick<WriteHealth, "refused" | "unanswered" | "answered">) {
    this.#link = link
    this.#writeHealth = writeHealth
  }

  /**
   * Publishes all messages; the results are in order. `each` is called with a result as soon as it is known. Rejects
   * only when no message was sent.
   */
  async publish(
    batch: ReadonlyArray<Outgoing>,
    each?: (index: number, result: Published) => void,
  ): Promise<ReadonlyArray<Published>> {
    if (batch.length === 0) return []
    if (!this.#link.isReady) await this.#link.ready()
    const results: Array<Published> = new Array(batch.length)
    const parts: Array<Promise<void>> = []
    for (let start = 0; start < batch.length; ) {
      const from = start
      const part = partOf(batch, start)
      const bytes = part.reduce((sum, { payload }) => sum + payload.length, 0)
      if (!this.#reserve(part.length, bytes))
        await new Promise<void>((go) => this.#waiting.push({ count: part.length, bytes, go }))
      const note = (at: number, result: Published): void => {
        results[from + at] = result
        each?.(from + at, result)
      }
      parts.push(this.#publishPart(part, bytes, note))
      start += part.length
    }
    for (const part of parts) await part
    return results
  }

  /** Whether the window has room for this part, which then takes it: first come, first served. */
  #reserve(count: number, bytes: number): boolean {
    if (this.#waiting.length > 0 || !this.#fits(count, bytes)) return false
    this.#messages += count
    this.#bytes += bytes
    return true
  }

  #fits(count: number, bytes: number): boolean {
    return this.#messages === 0 || (this.#messages + count <= WINDOW && this.#bytes + bytes <= WINDOW_BYTES)
  }

  #release(count: number, bytes: number): void {
    this.#messages -= count
    this.#bytes -= bytes
    for (let next = this.#waiting[0]; next && this.#fits(next.count, next.bytes); next = this.#waiting[0]) {
      this.#waiting.shift()
      this.#messages += next.count
      this.#bytes += next.bytes
      next.go()
    }
  }

  /**
   * Sends a part that has room in the window, and sends those messages again that the server could not decide on while
   * another client was writing. The room is free again at its end. Never rejects.
   */
  async #publishPart(
    part: ReadonlyArray<Outgoing>,
    bytes: number,
    note: (at: number, result: Published) => void,
  ): Promise<void> {
    let left = part
    let places: ReadonlyArray<number> | undefined
    try {
      for (let pause = BUSY_MS; ; pause *= 2) {
        const again: Array<number> = []
        const last = pause > MAX_BUSY_MS
        const before = places
        await this.#send(left, (at, answer) => {
          const place = before === undefined ? at : (before[at] ?? at)
          if (answer.status === "no-room") {
            this.#writeHealth?.refused(answer.error)
            note(place, { status: "failed", error: answer.error })
          } else if (answer.status !== "busy") note(place, answer)
          else if (last) note(place, { status: "failed", error: answer.error })
          else again.push(place)
        })
        if (again.length === 0) return
        await sleep(pause)
        places = again
        left = again.flatMap((place) => part[place] ?? [])
      }
    } finally {
      this.#release(part.length, bytes)
    }
  }

  #send(part: ReadonlyArray<Outgoing>, note: (at: number, answer: Answer) => void): Promise<void> {
    return new Promise((resolve) => {
      let left = part.length
      const answered = (at: number, answer: Answer): void => {
        note(at, answer)
        if (--left === 0) resolve()
      }
      const { inbox } = this.#link
      const subjectOf = (at: number): string => part[at]?.subject ?? ""
      const first = inbox.register(
        {
          subjectOf,
          timeout: ANSWER_MS,
          answered: (at, message) => {
            const answer = readAck(message, subjectOf(at))
            if (answer.status === "stored" || answer.status === "conflict") this.#writeHealth?.answered()
            answered(at, answer)
            return true
          },
          failed: (at, error) => {
            if (error.outcome === "unknown") this.#writeHealth?.unanswered(error)
            answered(at, { status: "failed", error })
          },
        },
        part.length,
      )
      part.forEach(({ subject, payload, headers }, at) => {
        try {
          this.#link.send(subject, payload, inbox.reply(first + at), headers)
        } catch (error) {
          inbox.cancel(first + at)
          answered(at, { status: "failed", error: asTransportError(error) })
        }
      })
    })
  }
}

/** The messages from `start` on that are sent together; at least one. */
const partOf = (batch: ReadonlyArray<Outgoing>, start: number): ReadonlyArray<Outgoing> => {
  let bytes = 0
  let end = start
  for (; end < batch.length && end - start < MAX_PART; end++) {
    bytes += batch[end]?.payload.length ?? 0
    if (end > start && bytes > WINDOW_BYTES) break
  }
  return start === 0 && end === batch.length ? batch : batch.slice(start, end)
}

/**
 * Reads an acknowledgement: `{"stream":"…","seq":7}`, with `"duplicate": true` or, instead, `"error":{…}`. Most end
 * with the sequence, and need no JSON parser.
 */
const readAck = (message: Msg, subject: string): Answer => {
  const { data } = message
  if (data[2] === LETTER_S && data[data.length - 1] === BRACE) {
    let seq = 0
    let scale = 1
    for (let at = data.length - 2; at > 0; at--, scale *= 10) {
      const digit = (data[at] ?? 0) - ZERO
      if (digit < 0 || digit > 9) break
      seq += digit * scale
    }
    if (seq > 0) return { status: "stored", seq, duplicate: false }
  }
  return parseAck(decoder.decode(data), subject)
}

const LETTER_S = 115
const BRACE = 125
const ZERO = 48

const parseAck = (text: string, subject: string): Answer => {
  let answer: unknown
  try {
    answer = JSON.parse(text)
  } catch {
    // The text is not JSON: it has no fields, and becomes an error below.
  }
  const error = errorIn(answer)
  const seq = numberAt(answer, "seq")
  if (error === undefined && seq > 0) return { status: "stored", seq, duplicate: at(answer, "duplicate") === true }
  if (error?.err_code === CODE.wrongLastSequence) return CONFLICT
  if (error !== undefined && BUSY.has(error.err_code)) return { status: "busy", error: fromApiError(error, subject) }
  if (error !== undefined && hasNoRoom(error)) return { status: "no-room", error: fromApiError(error, subject) }
  const failure =
    error === undefined
      ? new TransportError("internal", `${subject}: not an acknowledgement`, { outcome: "unknown" })
      : fromApiError(error, subject)
  return { status: "failed", error: failure }
}
