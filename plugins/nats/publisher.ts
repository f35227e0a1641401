/**
 * Publishes to streams, in batches: all messages leave at once, one promise per batch. What the server answers comes
 * back per message; nothing is tried twice.
 */
import type { Msg } from "nats"
import { TransportError } from "../../runtime/transport.ts"
import { apiError, CODE, closed, ofApi } from "./errors.ts"
import { at } from "./json.ts"
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

/** The answers to one batch. */
interface Batch {
  readonly results: Array<Published>
  left: number
  readonly done: () => void
  readonly each: ((index: number, result: Published) => void) | undefined
}

/**
 * Messages that may await their acknowledgement at a time: more are not faster, but wait longer. The client's buffer has
 * no bound of its own, and streams refuse what they cannot take in (nats-server 2.15 holds 10,000 messages).
 */
const WINDOW = 1_024
const WINDOW_BYTES = 32 * 1024 * 1024

const CONFLICT: Published = { status: "conflict" }

export class Publisher {
  readonly #link: Link
  readonly #queue: Array<() => void> = []
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
    const results: Array<Published> = []
    for (let start = 0; start < batch.length; ) {
      const { count, bytes } = sizeOf(batch, start)
      // Larger batches than the window go in parts.
      while (this.#messages > 0 && (this.#messages + count > WINDOW || this.#bytes + bytes > WINDOW_BYTES)) {
        await new Promise<void>((resolve) => this.#queue.push(resolve))
      }
      if (start > 0 && this.#link.closing.aborted) {
        const failed: Published = { status: "failed", error: closed() }
        while (results.length < batch.length) results.push(failed)
        return results
      }
      this.#messages += count
      this.#bytes += bytes
      const from = start
      const part = await this.#send(batch, start, count, each && ((index, result) => each(from + index, result)))
      this.#messages -= count
      this.#bytes -= bytes
      for (const wake of this.#queue.splice(0)) wake()
      if (start === 0 && count === batch.length) return part
      results.push(...part)
      start += count
    }
    return results
  }

  #send(
    batch: ReadonlyArray<Outgoing>,
    start: number,
    count: number,
    each: Batch["each"],
  ): Promise<ReadonlyArray<Published>> {
    return new Promise((resolve) => {
      const results: Array<Published> = new Array(count)
      const state: Batch = { results, left: count, done: () => resolve(results), each }
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

const settle = (batch: Batch, index: number, result: Published): void => {
  batch.results[index] = result
  batch.each?.(index, result)
  if (--batch.left === 0) batch.done()
}

/** How many messages from `start` on fit into the window together; at least one. */
const sizeOf = (batch: ReadonlyArray<Outgoing>, start: number): { count: number; bytes: number } => {
  let count = 0
  let bytes = 0
  for (let index = start; index < batch.length && count < WINDOW; index++) {
    const size = batch[index]?.payload.length ?? 0
    if (count > 0 && bytes + size > WINDOW_BYTES) break
    count++
    bytes += size
  }
  return { count, bytes }
}

const decoder = new TextDecoder()
const SEQ = '"seq":'

/**
 * An acknowledgement: `{"stream":"…","seq":7}`, with `"duplicate": true` or instead `"error":{…}`. Read without parsing
 * as long as it has that shape; stream names hold no quotes.
 */
const readAck = (message: Msg, subject: string): Published => {
  const text = decoder.decode(message.data)
  const seqAt = text.indexOf(SEQ)
  if (seqAt > 0 && !text.startsWith('{"error"')) {
    const seq = Number.parseInt(text.slice(seqAt + SEQ.length), 10)
    if (seq > 0) return { status: "stored", seq, duplicate: text.includes('"duplicate"', seqAt) }
  }
  return readRefusal(text, subject)
}

const readRefusal = (text: string, subject: string): Published => {
  let answer: unknown
  try {
    answer = JSON.parse(text)
  } catch {
    // Answered below: nothing in it can be read.
  }
  const error = apiError(at(answer, "error"))
  if (error?.err_code === CODE.wrongLastSequence) return CONFLICT
  const failure =
    error === undefined
      ? new TransportError("internal", `${subject}: not an acknowledgement`, { outcome: "unknown" })
      : ofApi(error, subject)
  return { status: "failed", error: failure }
}
