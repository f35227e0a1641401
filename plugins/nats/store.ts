/**
 * The store: one stream with one subject per key; the last message of a subject is its value, and its sequence the
 * revision. A removed key keeps an empty message with a header for about a second, so that watchers hear of it.
 */
import { createInbox } from "nats"
import { TransportError } from "../../runtime/transport/mod.ts"
import type { Entry, Revision, Store, StoreOperation } from "../../runtime/transport/store.ts"
import { sleep } from "../../runtime/transport/timers.ts"
import { apiError, at, BUSY, CODE, copyOf, fromApiError, hasNoRoom, objectAt, timedOut } from "./connection/answers.ts"
import { ANSWER_MS, type NatsLink } from "./connection/link.ts"
import type { ServerClock } from "./connection/server-clock.ts"
import type { Names } from "./streams/names.ts"
import type { StoredMessage, StreamReader } from "./streams/reader.ts"
import type { WriteHealth } from "./streams/write-health.ts"
import type { Subscriptions } from "./watch.ts"

const REMOVED_HEADER = "Callboard-Removed"

/**
 * When a value expires, in milliseconds by the clock of the server: JetStream's own times to live are whole seconds.
 */
const UNTIL_HEADER = "Callboard-Until"

const MAX_KEY_BYTES = 512
/** Most messages in one atomic batch (nats-server 2.12). */
const MAX_OPERATIONS = 1_000
const MAX_ROUNDS = 20
/** Pause after the server answered that another client is writing the same keys. */
const BUSY_MS = 10
/** Subjects on one page of the server's list. */
const PAGE = 100_000
/** How long an expired value may stay before it is swept: the server removes it itself, as a rule within a second. */
const OVERDUE_MS = 60_000
/** Pause after a sweep has reached the end. */
const SWEEP_PAUSE_MS = 600_000
/** Most values that one request reads. */
const VALUES = 256

const NOTHING = new Uint8Array(0)

export interface StoreParts {
  readonly link: NatsLink
  readonly names: Names
  readonly reader: StreamReader
  readonly subscriptions: Subscriptions
  readonly maxValue: number
  readonly clock: ServerClock
  /** Called with writes that the server did not store. */
  readonly writeHealth: Pick<WriteHealth, "refused" | "unanswered" | "answered">
}

/** One key to write or check, with its expectation as a sequence. */
interface Step {
  readonly operation: StoreOperation
  readonly subject: string
  /** Sequence that the subject's last message must have; absent: any. */
  readonly expect: number | undefined
}

export class NatsStore implements Store {
  readonly #parts: StoreParts
  #lastNow = 0
  /** Where the next sweep begins, and when. */
  #sweep = { from: 1, at: 0 }

  constructor(parts: StoreParts) {
    this.#parts = parts
  }

  async get(keys: ReadonlyArray<string>): Promise<ReadonlyArray<Entry | undefined>> {
    for (const key of keys) checkKey(key)
    const found = await this.#values(keys, true)
    return keys.map((key) => found.get(key))
  }

  async write(operations: ReadonlyArray<StoreOperation>): Promise<ReadonlyArray<Revision> | "conflict"> {
    for (const operation of operations) this.#check(operation)
    const merged = merge(operations)
    if (merged === undefined) return "conflict"
    const writes = merged.some(({ value }) => value !== undefined)
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const steps = await this.#resolve(merged, round > 0 || !writes)
      if (steps === "conflict") return "conflict"
      const first = writes ? await this.#commit(steps) : 0
      if (first === undefined) continue
      const revisions = new Map(steps.map(({ operation: { key } }, at) => [key, String(first + at)]))
      return operations.map(({ key, value }) => (value ? (revisions.get(key) ?? "") : ""))
    }
    throw new TransportError("unavailable", "too many concurrent writes to the same keys")
  }

  async list({ prefix, after, limit, reverse = false }: Parameters<Store["list"]>[0]): Promise<ReadonlyArray<Entry>> {
    const whole = limit >= VALUES && after === undefined ? await this.#whole(prefix) : undefined
    if (whole !== undefined) return (reverse ? whole.reverse() : whole).slice(0, limit)
    const keys = (await this.#keys(prefix)).filter(
      (key) => after === undefined || (reverse ? compareBytes(key, after) < 0 : compareBytes(key, after) > 0),
    )
    if (reverse) keys.reverse()
    const entries: Array<Entry> = []
    const some = Math.min(VALUES, Math.max(limit, 1))
    for (let from = 0; from < keys.length && entries.length < limit; from += some) {
      const asked = keys.slice(from, from + some)
      const found = await this.#values(asked, false)
      entries.push(...asked.flatMap((key) => found.get(key) ?? []))
    }
    return entries.slice(0, limit)
  }

  async watch(
    prefix: string,
    listener: Parameters<NonNullable<Store["watch"]>>[1],
    signal: AbortSignal,
  ): Promise<void> {
    const { names, subscriptions } = this.#parts
    const begin = names.eventsOf(prefix)
    await subscriptions.listen(
      names.event("k"),
      ({ subject, headers, data }) => {
        if (!subject.startsWith(begin)) return
        const key = names.key(subject)
        // For a value whose time to live has ended the server itself publishes a marker.
        const gone = headers?.has(REMOVED_HEADER) || headers?.has("Nats-Marker-Reason")
        listener(gone ? { key } : { key, value: copyOf(data) })
      },
      signal,
    )
  }

  async now(): Promise<number> {
    const { clock } = this.#parts
    await clock.fresh()
    this.#lastNow = Math.max(this.#lastNow, clock.now())
    return this.#lastNow
  }

  /**
   * Removes values that expired a while ago: a server that was killed may keep some of them for ever, which readers then
   * skip. Each call looks at one slice of the stream.
   */
  async sweep(): Promise<void> {
    const { reader, names } = this.#parts
    const now = await this.now()
    if (now < this.#sweep.at) return
    const { messages, more } = await reader.from(this.#sweep.from, names.values(""), VALUES)
    const overdue = messages.filter((message) => Number(message.header(UNTIL_HEADER) || Infinity) + OVERDUE_MS < now)
    await reader.remove(overdue.map(({ seq }) => seq))
    const last = messages[messages.length - 1]
    this.#sweep =
      more === 0 || last === undefined ? { from: 1, at: now + SWEEP_PAUSE_MS } : { from: last.seq + 1, at: 0 }
  }

  #check({ key, value, ttl }: StoreOperation): void {
    checkKey(key)
    if (ttl !== undefined && !(ttl >= 1_000))
      throw new TransportError("invalid", "a time to live must be at least 1,000")
    const { maxValue } = this.#parts
    if (value && value.length > maxValue) {
      throw new TransportError("too-large", `${key}: ${value.length} bytes; at most ${maxValue} are allowed`)
    }
  }

  #entry({ subject, data, seq }: StoredMessage): Entry {
    return { key: this.#parts.names.key(subject), value: copyOf(data), revision: String(seq) }
  }

  /** All entries with a prefix in one answer, in byte order; `undefined` where they are too many for that. */
  async #whole(prefix: string): Promise<Array<Entry> | undefined> {
    const { reader, names } = this.#parts
    const messages = await reader.all(names.values(prefix))
    if (messages === undefined) return undefined
    const entries = (await this.#live(messages)).map((message) => this.#entry(message))
    return entries.filter(({ key }) => key.startsWith(prefix)).sort((a, b) => compareBytes(a.key, b.key))
  }

  /** Keys with a prefix that have a message (values and removals), in byte order. */
  async #keys(prefix: string): Promise<Array<string>> {
    const { link, names } = this.#parts
    const keys: Array<string> = []
    for (let offset = 0; ; offset += PAGE) {
      const info = await link.api(`STREAM.INFO.${names.storeStream}`, { subjects_filter: names.values(prefix), offset })
      const subjects = Object.keys(objectAt(info, "state", "subjects"))
      for (const subject of subjects) {
        const key = names.key(subject)
        if (key.startsWith(prefix)) keys.push(key)
      }
      if (subjects.length < PAGE) return keys.sort(compareBytes)
    }
  }

  async #values(keys: ReadonlyArray<string>, current: boolean): Promise<ReadonlyMap<string, Entry>> {
    const { reader, names } = this.#parts
    const subjects = keys.map((key) => names.value(key))
    const messages = await this.#live(await reader.last(subjects, current))
    return new Map(messages.map((message) => this.#entry(message)).map((entry) => [entry.key, entry]))
  }

  /** The messages that hold a value and have not expired. */
  async #live(messages: ReadonlyArray<StoredMessage>): Promise<ReadonlyArray<StoredMessage>> {
    const now = messages.some((message) => message.header(UNTIL_HEADER) !== "") ? await this.now() : 0
    return messages.filter(
      (message) =>
        message.header(REMOVED_HEADER) === "" &&
        message.header("Nats-Marker-Reason") === "" &&
        Number(message.header(UNTIL_HEADER) || Infinity) > now,
    )
  }

  /**
   * Turns expected revisions into expected sequences. At first they are taken as they are; after a conflict (`look`),
   * the current messages decide: an absent key may still have the message of its removal, whose sequence the server
   * compares.
   */
  async #resolve(operations: ReadonlyArray<StoreOperation>, look: boolean): Promise<ReadonlyArray<Step> | "conflict"> {
    const { names, reader } = this.#parts
    const expecting = operations.filter(({ expect }) => expect !== undefined)
    const messages = look
      ? await reader.last(
          expecting.map(({ key }) => names.value(key)),
          true,
        )
      : []
    const found = new Map(messages.map((message) => [message.subject, message]))
    const living = new Set(await this.#live(messages))
    const steps: Array<Step> = []
    for (const operation of operations) {
      const subject = names.value(operation.key)
      const { expect } = operation
      const message = found.get(subject)
      const current = message !== undefined && living.has(message) ? message : undefined
      if (expect === undefined) steps.push({ operation, subject, expect: undefined })
      else if (expect === "") {
        if (current !== undefined) return "conflict"
        steps.push({ operation, subject, expect: message?.seq ?? 0 })
      } else {
        const seq = Number(expect)
        if (!(Number.isSafeInteger(seq) && seq > 0) || (look && current?.seq !== seq)) return "conflict"
        steps.push({ operation, subject, expect: seq })
      }
    }
    return steps
  }

  /**
   * Writes all steps or none, as one batch. Returns the sequence of the first; `undefined` when an expectation did not
   * hold.
   */
  async #commit(steps: ReadonlyArray<Step>): Promise<number | undefined> {
    const { link, names } = this.#parts
    const now = steps.some(({ operation: { ttl } }) => ttl !== undefined) ? await this.now() : 0
    const batch = steps.length > 1 ? createInbox("b").slice(2) : undefined
    const last = steps.length - 1
    await link.ready()
    const answer = await new Promise<unknown>((resolve, reject) => {
      const token = link.inbox.register({
        subjectOf: () => steps[last]?.subject ?? names.storeStream,
        timeout: ANSWER_MS,
        answered: (_, message) => {
          resolve(parse(message.string()))
          return true
        },
        failed: (_, error) => {
          if (error.outcome === "unknown") this.#parts.writeHealth.unanswered(error)
          reject(error)
        },
      })
      try {
        for (const [index, step] of steps.entries()) {
          const { value } = step.operation
          const headers = headersOf(step, now) + (batch === undefined ? "" : batchHeaders(batch, index, last))
          const reply = index === last ? link.inbox.reply(token) : ""
          // A key that is only checked is not written: the expectation goes with a message on a subject of its own,
          // which has no listeners.
          const subject = value === undefined ? names.check(index) : step.subject
          link.send(subject, value ?? NOTHING, reply, headers)
        }
      } catch (error) {
        link.inbox.cancel(token)
        reject(error)
      }
    })
    const error = apiError(at(answer, "error"))
    if (error?.err_code === CODE.wrongLastSequence) return undefined
    if (error !== undefined && BUSY.has(error.err_code)) {
      await sleep(BUSY_MS)
      return undefined
    }
    if (error !== undefined) {
      // A message of a batch that the server does not allow makes the whole batch fail for another reason.
      await sleep(0)
      const failure = refusalOf(link, steps) ?? fromApiError(error, names.storeStream)
      if (hasNoRoom(error)) this.#parts.writeHealth.refused(failure)
      throw failure
    }
    if (at(answer, "seq") === undefined) throw timedOut(names.storeStream, ANSWER_MS)
    this.#parts.writeHealth.answered()
    return Number(at(answer, "seq")) - last
  }
}

const refusalOf = (link: NatsLink, steps: ReadonlyArray<Step>): TransportError | undefined => {
  for (const { subject } of steps) {
    const refusal = link.refusal(subject)
    if (refusal !== undefined) return refusal
  }
  return undefined
}

const headersOf = ({ operation: { value, ttl }, subject, expect }: Step, now: number): string => {
  const where = value === undefined ? `Nats-Expected-Last-Subject-Sequence-Subject: ${subject}\r\n` : ""
  const condition = expect === undefined ? "" : `Nats-Expected-Last-Subject-Sequence: ${expect}\r\n${where}`
  // The message must not be deleted before: a server that is killed after that brings the value before it back.
  if (!value) return `${condition}${REMOVED_HEADER}: 1\r\nNats-TTL: 1\r\n`
  if (ttl === undefined) return condition
  return `${condition}${UNTIL_HEADER}: ${Math.ceil(now + ttl)}\r\nNats-TTL: ${Math.ceil(ttl / 1_000)}\r\n`
}

const batchHeaders = (batch: string, index: number, last: number): string =>
  `Nats-Batch-Id: ${batch}\r\nNats-Batch-Sequence: ${index + 1}\r\n${index === last ? "Nats-Batch-Commit: 1\r\n" : ""}`

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const checkKey = (key: string): void => {
  const bytes = Buffer.byteLength(key)
  if (bytes >= 1 && bytes <= MAX_KEY_BYTES && key.isWellFormed()) return
  throw new TransportError("invalid", `a key must have 1 to ${MAX_KEY_BYTES} bytes of UTF-8, not ${bytes}`)
}

/**
 * Merges the operations on one key: expectations are about the value before the batch, and the last value is written.
 * `undefined` when two expectations of one key contradict each other.
 */
const merge = (operations: ReadonlyArray<StoreOperation>): ReadonlyArray<StoreOperation> | undefined => {
  const byKey = new Map<string, StoreOperation>()
  for (const operation of operations) {
    const before = byKey.get(operation.key)
    const { expect = before?.expect, ...rest } = operation
    if (before?.expect !== undefined && expect !== before.expect) return undefined
    const { key, value, ttl } = rest.value === undefined && before !== undefined ? before : rest
    byKey.set(key, {
      key,
      ...(value === undefined ? {} : { value }),
      ...(ttl === undefined ? {} : { ttl }),
      ...(expect === undefined ? {} : { expect }),
    })
  }
  if (byKey.size <= MAX_OPERATIONS) return [...byKey.values()]
  throw new TransportError("invalid", `at most ${MAX_OPERATIONS} keys can be written at once, not ${byKey.size}`)
}

/**
 * Compares by UTF-8 bytes, which is the order of code points. JavaScript compares UTF-16 units, which puts surrogates
 * too early.
 */
const compareBytes = (a: string, b: string): number => {
  const length = Math.min(a.length, b.length)
  for (let index = 0; index < length; index++) {
    const x = a.charCodeAt(index)
    const y = b.charCodeAt(index)
    if (x === y) continue
    return x >= 0xd800 && y >= 0xd800 ? Number(isSurrogate(x)) - Number(isSurrogate(y)) || x - y : x - y
  }
  return a.length - b.length
}

const isSurrogate = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdfff
