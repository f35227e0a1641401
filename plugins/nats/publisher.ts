/**
 * Publishes to streams, in batches: all messages leave at once, one promise per batch. What the server answers comes
 * back per message; nothing is tried twice.
 */
import type { Msg } from "nats"
import { TransportError } from "../../runtime/transport.ts"
import { CODE, ofApi } from "./errors.ts"
import { MAX_QUESTIONS } from "./inbox.ts"
import { at, errorIn, numberAt } from "./json.ts"
import { ANSWER_MS, type Link } from "./link.ts"

export interface Outgoing {
  readonly subject: string
  /** Lines that end in CRLF; may be empty. */
  readonly headers: string
  readonly payload: Uint8Array
}

/** What became of one message. */
export type Published =
  | { readonly status: "stored"; readonly seq: number; readonly duplicate: boolean }
  /** An expected sequence did not hold. */
  | { readonly status: "conflict" }
  | { readonly status: "failed"; readonly error: TransportError }

/** The answers to one part of a batch. */
interface Part {
  /** Place of the first in the whole batch. */
  readonly start: number
  readonly results: Array<Published>
  left: number
  readonly done: () => void
  readonly each: ((index: number, result: Published) => void) | undefined
}

/**
 * Messages that may await their acknowledgement at a time: more are not faster, but wait longer. The client's buffer has
 * no bound of its own, and streams refuse what they cannot take in (nats-server 2.15 holds 10,000 messages).
 */
const WINDOW = 1024
const WINDOW_BYTES = 32 * 1024 * 1024

/** Longer batches go in parts, so that the window is never empty. */
const TOGETHER = MAX_QUESTIONS

const CONFLICT: Published = { status: "conflict" }

/** Who waits for room in the window. */
interface Waiting {
  readonly count: number
  readonly bytes: number
  readonly go: () => void
}

export class Publisher {
  readonly #link: Link
  readonly #waiting: Array<Waiting> = []
  #messages = 0
  #bytes = 0

  constructor(link: Link) {
    this.#link = link
  }

  /**
   * Publishes all; the results are in order. `each` hears of a result as soon as it is known. Rejects only when nothing
   * was tried.
   */
  async publish(
    batch: ReadonlyArray<Outgoing>,
    each?: (index: number, result: Published) => void,
  ): Promise<ReadonlyArray<Published>> {
    if (batch.length === 0) return []
    await this.#link.ready()
    const parts: Array<Promise<ReadonlyArray<Published>>> = []
    for (let start = 0; start < batch.length; ) {
      const { count, bytes } = sizeOf(batch, start)
      await this.#room(count, bytes)
      parts.push(this.#send(batch, start, count, each).finally(() => this.#leave(count, bytes)))
      start += count
    }
    const results = await Promise.all(parts)
    return results.length === 1 ? (results[0] ?? []) : results.flat()
  }

  /** Resolves when so much more fits into the window, first come, first served. */
  async #room(count: number, bytes: number): Promise<void> {
    if (this.#waiting.length > 0 || !this.#fits(count, bytes)) {
      await new Promise<void>((go) => this.#waiting.push({ count, bytes, go }))
    } else {
      this.#messages += count
      this.#bytes += bytes
    }
  }

  #fits(count: number, bytes: number): boolean {
    return this.#messages === 0 || (this.#messages + count <= WINDOW && this.#bytes + bytes <= WINDOW_BYTES)
  }

  #leave(count: number, bytes: number): void {
    this.#messages -= count
    this.#bytes -= bytes
    for (let next = this.#waiting[0]; next && this.#fits(next.count, next.bytes); next = this.#waiting[0]) {
      this.#waiting.shift()
      this.#messages += next.count
      this.#bytes += next.bytes
      next.go()
    }
  }

  #send(
    batch: ReadonlyArray<Outgoing>,
    start: number,
    count: number,
    each: Part["each"],
  ): Promise<ReadonlyArray<Published>> {
    return new Promise((resolve) => {
      const results: Array<Published> = new Array(count)
      const state: Part = { start, results, left: count, done: () => resolve(results), each }
      const first = this.#link.inbox.ask(
        {
          subjectOf: (index) => batch[start + index]?.subject ?? "",
          timeout: ANSWER_MS,
          answered: (index, message) => {
            settle(state, index, readAck(message, batch[start + index]?.subject ?? ""))
            return true
          },
          failed: (index, error) => settle(state, index, { status: "failed", error }),
        },
        count,
      )
      for (let index = 0; index < count; index++) {
        const outgoing = batch[start + index]
        if (outgoing === undefined) continue
        const token = first + index
        try {
          this.#link.send(outgoing.subject, outgoing.payload, this.#link.inbox.reply(token), outgoing.headers)
        } catch (error) {
          this.#link.inbox.forget(token)
          const failure = error instanceof TransportError ? error : new TransportError("internal", String(error))
          settle(state, index, { status: "failed", error: failure })
        }
      }
    })
  }
}

const settle = (part: Part, index: number, result: Published): void => {
  part.results[index] = result
  part.each?.(part.start + index, result)
  if (--part.left === 0) part.done()
}

/** How many messages from `start` on go together; at least one. */
const sizeOf = (batch: ReadonlyArray<Outgoing>, start: number): { count: number; bytes: number } => {
  let count = 0
  let bytes = 0
  for (let index = start; index < batch.length && count < TOGETHER; index++) {
    const size = batch[index]?.payload.length ?? 0
    if (count > 0 && bytes + size > WINDOW_BYTES) break
    count++
    bytes += size
  }
  return { count, bytes }
}

/**
 * An acknowledgement: `{"stream":"…","seq":7}`, with `"duplicate": true` or instead `"error":{…}`. Most end in the
 * sequence and need no parsing.
 */
const readAck = (message: Msg, subject: string): Published => {
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
  return readSlowly(decoder.decode(data), subject)
}

const LETTER_S = 115
const BRACE = 125
const ZERO = 48

const decoder = new TextDecoder()

const readSlowly = (text: string, subject: string): Published => {
  let answer: unknown
  try {
    answer = JSON.parse(text)
  } catch {
    // Answered below: nothing in it can be read.
  }
  const error = errorIn(answer)
  const seq = numberAt(answer, "seq")
  if (error === undefined && seq > 0) return { status: "stored", seq, duplicate: at(answer, "duplicate") === true }
  if (error?.err_code === CODE.wrongLastSequence) return CONFLICT
  const failure =
    error === undefined
      ? new TransportError("internal", `${subject}: not an acknowledgement`, { outcome: "unknown" })
      : ofApi(error, subject)
  return { status: "failed", error: failure }
}
