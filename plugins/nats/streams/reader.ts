/**
 * Reads one stream by subject and sequence, in batches. Followers of a replicated stream may lag behind, so that a
 * caller that must see every write answered before reads from the leader.
 */
import { Empty, type Msg } from "nats"
import { isObject } from "../../../runtime/protocol/guards.ts"
import { isState } from "../../../runtime/protocol/state.ts"
import { encoder } from "../../../runtime/protocol/text.ts"
import type { Index } from "../../../runtime/transport/known.ts"
import { TransportError } from "../../../runtime/transport/mod.ts"
import { at, fromApiError, NO_MESSAGE, numberAt, textAt } from "../connection/answers.ts"
import { blockOf, headersOf, statusOf } from "../connection/header-block.ts"
import { ANSWER_MS, type NatsLink } from "../connection/link.ts"

/** A stored message. */
export interface StoredMessage {
  readonly subject: string
  readonly seq: number
  /** When it was stored, by the clock of the server, in milliseconds since the epoch. */
  readonly time: number
  readonly data: Uint8Array
  /** Its header block, behind which the server may have put lines of its own. */
  readonly block: Uint8Array
  /** The last header of this name; empty where there is none. */
  header(name: string): string
}

/** First and last sequence of a stream, and how much it holds. */
export interface StreamBounds {
  /** Sequence of the first message. */
  readonly first: number
  /** Sequence of the last message that was stored. */
  readonly last: number
  readonly messages: number
  /** Size of all messages, in bytes. */
  readonly bytes: number
}

/** Most filters in one request. The server answers with at most 1,024 messages, and a filter may match several. */
const FILTERS_AT_ONCE = 128

/** Code of the answer that there would be more messages than one request may ask for. */
const TOO_MANY = 413

export class StreamReader {
  readonly #link: NatsLink
  readonly #stream: string
  readonly #replicated: boolean

  constructor(link: NatsLink, stream: string, replicated: boolean) {
    this.#link = link
    this.#stream = stream
    this.#replicated = replicated
  }

  /**
   * The last message of each subject that the filters match, in order of sequence. `current` reads from the leader, and
   * then only the very last message of each filter.
   */
  async last(filters: ReadonlyArray<string>, current = false): Promise<ReadonlyArray<StoredMessage>> {
    if (filters.length === 0) return []
    if (current && this.#replicated) {
      const found = await Promise.all(filters.map((filter) => this.#fromLeader({ last_by_subj: filter })))
      return found.flatMap((message) => message ?? [])
    }
    const [only = ""] = filters
    if (filters.length === 1 && !/[*>]/.test(only)) {
      const name = this.#link.apiSubject(`DIRECT.GET.${this.#stream}.${only}`)
      return [this.#read(await this.#link.request(name, Empty))].flatMap((message) => message ?? [])
    }
    const parts: Array<Promise<ReadonlyArray<StoredMessage>>> = []
    for (let at = 0; at < filters.length; at += FILTERS_AT_ONCE) {
      parts.push(this.#direct({ multi_last: filters.slice(at, at + FILTERS_AT_ONCE) }))
    }
    return (await Promise.all(parts)).flat()
  }

  /** The last message of each subject that a filter matches; `undefined` where these are too many for one answer. */
  async all(filter: string): Promise<ReadonlyArray<StoredMessage> | undefined> {
    const subject = this.#link.apiSubject(`DIRECT.GET.${this.#stream}`)
    const request = encoder.encode(JSON.stringify({ multi_last: [filter] }))
    const answers = await this.#link.requestMany(subject, request, (message) => statusOf(message) > 0)
    const end = answers[answers.length - 1]
    if (end !== undefined && (statusOf(end) === TOO_MANY || pendingIn(end) > 0)) return undefined
    return answers.flatMap((message) => this.#read(message) ?? [])
  }

  /** The message with this sequence. */
  async at(seq: number): Promise<StoredMessage | undefined> {
    const [found] = await this.#direct({ seq })
    return found
  }

  /** Up to `batch` messages that match a filter, from a sequence on, in rising order. `more`: how many follow. */
  async from(
    seq: number,
    filter: string,
    batch: number,
  ): Promise<{ readonly messages: ReadonlyArray<StoredMessage>; readonly more: number }> {
    let more = 0
    const request = { seq: Math.max(seq, 1), next_by_subj: filter, batch, max_bytes: MAX_BATCH_BYTES }
    const messages = await this.#direct(request, (end) => {
      more = pendingIn(end)
    })
    return { messages, more }
  }

  /** All messages that match a filter, from a sequence on, in rising order and in batches. */
  async *batches(filter: string, from: number, batch: number): AsyncGenerator<ReadonlyArray<StoredMessage>> {
    for (let seq = from; ; ) {
      const { messages, more } = await this.from(seq, filter, batch)
      if (messages.length > 0) yield messages
      if (more === 0 || messages.length === 0) return
      seq = (messages[messages.length - 1]?.seq ?? seq) + 1
    }
  }

  /**
   * The first message from a sequence on that a filter matches; by default any. Unlike {@link from} it counts nothing, which
   * makes the server look at every subject that matches.
   */
  async next(seq: number, filter = ">"): Promise<StoredMessage | undefined> {
    const [found] = await this.#direct({ seq: Math.max(seq, 1), next_by_subj: filter })
    return found
  }

  /** The last message that a filter matches. The server looks at the subject of each that it matches. */
  async newest(filter: string): Promise<StoredMessage | undefined> {
    const [found] = await this.#direct({ last_by_subj: filter })
    return found
  }

  /** Number of messages that match a filter. The server looks at the subject of each. */
  async count(filter: string): Promise<number> {
    const { messages, more } = await this.from(1, filter, 1)
    return messages.length + more
  }

  async bounds(): Promise<StreamBounds> {
    const info = await this.#link.api(`STREAM.INFO.${this.#stream}`)
    return {
      first: numberAt(info, "state", "first_seq"),
      last: numberAt(info, "state", "last_seq"),
      messages: numberAt(info, "state", "messages"),
      bytes: numberAt(info, "state", "bytes"),
    }
  }

  /** Removes messages. One that does not exist is no error. */
  async remove(sequences: ReadonlyArray<number>): Promise<void> {
    await Promise.all(
      sequences.map(async (seq) => {
        // Without `no_erase` the server first overwrites the bytes, which takes forty times as long.
        const name = `STREAM.MSG.DELETE.${this.#stream}`
        const { error } = await this.#link.tryApi(name, { seq, no_erase: true })
        if (error !== undefined && !NO_MESSAGE.has(error.err_code)) {
          throw fromApiError(error, name)
        }
      }),
    )
  }

  /** Removes all messages that a filter matches; with `below`, those before that sequence. */
  async purge(filter: string, below?: number): Promise<void> {
    const request = { filter, ...(below === undefined ? {} : { seq: below }) }
    await this.#link.api(`STREAM.PURGE.${this.#stream}`, request)
  }

  async #direct(request: unknown, atEnd?: (end: Msg) => void): Promise<ReadonlyArray<StoredMessage>> {
    const subject = this.#link.apiSubject(`DIRECT.GET.${this.#stream}`)
    const single = isObject(request) && !("batch" in request) && !("multi_last" in request)
    const isLast = (message: Msg): boolean => single || statusOf(message) > 0
    const answers = await this.#link.requestMany(subject, encoder.encode(JSON.stringify(request)), isLast)
    const end = answers[answers.length - 1]
    if (end !== undefined) atEnd?.(end)
    return answers.flatMap((message) => this.#read(message) ?? [])
  }

  /** The message in an answer; `undefined` when the answer says that there is none. */
  #read(message: Msg): StoredMessage | undefined {
    const code = statusOf(message)
    if (code === 404 || code === 204) return undefined
    const block = blockOf(message)
    if (block.length === 0 || code > 0) {
      const why = code > 0 ? message.headers?.status : "no headers"
      throw new TransportError("internal", `${this.#stream}: reading failed: ${why}`)
    }
    const header = headersOf(block)
    // The server writes its lines over the last two bytes of a block, and so into the last line of one that was cut.
    const isCut = header("Nats-Stream") === ""
    return {
      subject: header("Nats-Subject"),
      seq: Number(header("Nats-Sequence")),
      time: Date.parse(header("Nats-Time-Stamp")),
      data: message.data,
      block: isCut ? block.subarray(0, 1) : block,
      header,
    }
  }

  async #fromLeader(request: { readonly last_by_subj: string }): Promise<StoredMessage | undefined> {
    const name = `STREAM.MSG.GET.${this.#stream}`
    // Without a leader this request gets no reply at all, so that it has the short timeout of other reads.
    const { answer, error } = await this.#link.tryApi(name, request, ANSWER_MS)
    if (error !== undefined && NO_MESSAGE.has(error.err_code)) return undefined
    if (error !== undefined) throw fromApiError(error, name)
    const block = new Uint8Array(Buffer.from(textAt(answer, "message", "hdrs"), "base64"))
    return {
      subject: textAt(answer, "message", "subject"),
      seq: numberAt(answer, "message", "seq"),
      time: Date.parse(textAt(answer, "message", "time")),
      data: new Uint8Array(Buffer.from(textAt(answer, "message", "data"), "base64")),
      block,
      header: headersOf(block),
    }
  }
}

/** How many messages the server has behind those of an answer. */
const pendingIn = (end: Msg): number => Number(headersOf(blockOf(end))("Nats-Num-Pending")) || 0

/** Most bytes of one batch of an answer. */
const MAX_BATCH_BYTES = 8 * 1024 * 1024

// ── the index header ─────────────────────────────────────────────────────────────────────────────────────────────────

/** Header with the fields that lists search, so that a list need not read the payloads of records and tasks. */
export const INDEX_HEADER = "Callboard-Index"

export const indexLine = (index: Index): string => `${INDEX_BEGIN}${JSON.stringify(index)}\r\n`

const INDEX_BEGIN = `${INDEX_HEADER}: `

/**
 * The index of a message; `undefined` if the header is missing or cannot be read, as in a message of another program.
 */
export const indexOf = (message: StoredMessage): Index | undefined => {
  let said: unknown
  try {
    said = JSON.parse(message.header(INDEX_HEADER))
  } catch {
    return undefined
  }
  const state = at(said, "state")
  if (!isState(state)) return undefined
  const optional = ["method", "root", "parent", "group", "error", "tenant"] as const
  const texts = optional.flatMap((name) => (typeof at(said, name) === "string" ? [[name, textAt(said, name)]] : []))
  return {
    state,
    queue: textAt(said, "queue"),
    task: textAt(said, "task"),
    at: numberAt(said, "at"),
    ...(at(said, "hidden") === true ? { hidden: true } : {}),
    ...(at(said, "dead") === true ? { dead: true } : {}),
    ...Object.fromEntries(texts),
  }
}
