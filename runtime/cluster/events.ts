/**
 * Events in Celery's form (type `category-action`, sender, time), sent over broadcast. Best effort: only processes that
 * listen at that moment get them. What must not be missed is in the records of jobs.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { Connection } from "../connection/connection.ts"
import { CallboardError } from "../errors.ts"
import type { Log } from "../log/log.ts"
import {
  decodeEvents,
  type EventFields,
  encodeEvents,
  joinEvents,
  type ReceivedEvent,
} from "../protocol/celery/event.ts"
import { MAX_DEPTH } from "../protocol/codec/codec.ts"
import { isPlainObject } from "../protocol/guards.ts"
import { byteLength } from "../protocol/text.ts"
import { nextTurn } from "../transport/timers.ts"

export type { ReceivedEvent } from "../protocol/celery/event.ts"

/** Topic of events. A message is JSON: one event, or a list of them. */
const EVENT_TOPIC = "event"

/** Most events that wait to be sent, and most bytes of them. Beyond either bound the oldest are dropped. */
const BUFFER = 1_000
const BUFFER_BYTES = 4 * 1024 * 1024
/**
 * Most events in one message, and most bytes unless a single event is larger: brokers refuse messages of a megabyte.
 */
const BATCH = 100
const BATCH_BYTES = 256 * 1024

/** Longest wait of {@link EventSender.flush}: a transport that does not answer must not keep a worker from stopping. */
const FLUSH_MS = 2_000

interface EventSenderOptions {
  readonly connection: Connection
  /** Name of the sender in its events: `worker@host`. */
  readonly hostname: string
  /** Gets a line at level debug where events were lost. */
  readonly log?: Pick<Log, "debug">
  /** Whether events about tasks are wanted. Defaults to false. */
  readonly enabled?: boolean
}

/** Sends the events of one sender. Events of one turn of the event loop share a message. */
export class EventSender {
  /** Whether events about tasks are wanted; may be changed at any time. The caller checks it, {@link emit} does not. */
  enabled: boolean
  readonly #connection: Connection
  readonly #hostname: string
  readonly #log: Pick<Log, "debug"> | undefined
  readonly #waiting: Array<Uint8Array> = []
  #bytes = 0
  #dropped = 0
  /** Lamport clock: an event that is sent after another one was received has a larger value. */
  #clock = 0
  #sending: Promise<void> | undefined

  constructor({ connection, hostname, log, enabled = false }: EventSenderOptions) {
    this.#connection = connection
    this.#hostname = hostname
    this.#log = log
    this.enabled = enabled
  }

  /** Puts an event into the next message. Never fails and never waits; an event that cannot be sent is dropped. */
  emit(type: string, fields: Readonly<Record<string, unknown>>): void {
    const encoded = encodeEvents(this.#eventOf(type, fields))
    if (Result.isFailure(encoded)) {
      this.#log?.debug("an event has no JSON form", { type, cause: encoded.failure.message })
      return
    }
    this.#waiting.push(encoded.success)
    this.#bytes += encoded.success.length
    while (this.#waiting.length > BUFFER || (this.#bytes > BUFFER_BYTES && this.#waiting.length > 1)) {
      this.#bytes -= this.#waiting.shift()?.length ?? 0
      this.#dropped++
    }
    this.#sending ??= nextTurn().then(() => this.#send())
  }

  /** Sends an event now, and resolves once it is sent. Fails with `TransportError`. */
  async send(type: string, fields: Readonly<Record<string, unknown>>): Promise<void> {
    const encoded = Result.getOrThrow(encodeEvents(this.#eventOf(type, fields)))
    await this.#connection.broadcast.send(EVENT_TOPIC, encoded)
  }

  /** Resolves when all events so far were sent or dropped, and after 2 seconds in any case. */
  async flush(): Promise<void> {
    if (this.#sending === undefined) return
    let timer: ReturnType<typeof setTimeout> | undefined
    const patience = new Promise((resolve) => {
      timer = setTimeout(resolve, FLUSH_MS)
    })
    await Promise.race([this.#sending, patience])
    clearTimeout(timer)
  }

  /** Notes that an event was received, so that later events of this sender have a larger clock. */
  received(event: ReceivedEvent): void {
    const clock = event["clock"]
    if (typeof clock === "number" && Number.isSafeInteger(clock)) this.#clock = Math.max(this.#clock, clock) + 1
  }

  #eventOf(type: string, fields: Readonly<Record<string, unknown>>): ReceivedEvent {
    const common: EventFields = {
      hostname: this.#hostname,
      timestamp: Date.now() / 1000,
      utcoffset: 0,
      pid: process.pid,
      clock: ++this.#clock,
    }
    return { ...fields, ...common, type }
  }

  /** The oldest waiting events, as many as fit one message. */
  #take(): ReadonlyArray<Uint8Array> {
    let count = 0
    let bytes = 0
    for (const event of this.#waiting) {
      bytes += event.length
      if (count > 0 && (count === BATCH || bytes > BATCH_BYTES)) break
      count++
    }
    const taken = this.#waiting.splice(0, count)
    for (const event of taken) this.#bytes -= event.length
    return taken
  }

  async #send(): Promise<void> {
    while (this.#waiting.length > 0) {
      const some = this.#take()
      try {
        await this.#connection.broadcast.send(EVENT_TOPIC, joinEvents(some))
      } catch (cause) {
        this.#log?.debug("events could not be sent", { count: some.length, cause: String(cause) })
      }
      if (this.#dropped === 0) continue
      this.#log?.debug("events were dropped: there were more than could be sent", { count: this.#dropped })
      this.#dropped = 0
    }
    this.#sending = undefined
  }
}

/**
 * Listens to events until the signal fires; resolves once the subscription holds. Messages that hold no event are
 * skipped.
 */
export const listenToEvents = (
  connection: Connection,
  listener: (event: ReceivedEvent) => void,
  signal: AbortSignal,
): Promise<void> =>
  connection.broadcast.listen(
    EVENT_TOPIC,
    (payload) => {
      const events = decodeEvents(payload)
      if (Result.isSuccess(events)) for (const event of events.success) listener(event)
    },
    signal,
  )

/** A type of event, or the beginning of one with `*`: `task-failed`, `worker-*`, `*`. */
const TypePattern = Schema.String.check(
  Schema.isPattern(/^(?=.)[A-Za-z0-9_-]{0,100}\*?$/, {
    message: "must be types of events such as task-failed, or prefixes such as worker-*",
  }),
)

export const TypePatterns = Schema.Array(TypePattern).check(Schema.isMinLength(1), Schema.isMaxLength(50))

/** A test whether a type matches one of the patterns. Without patterns every type matches. */
export const typeFilter = (patterns: ReadonlyArray<string> | undefined): ((type: string) => boolean) => {
  if (patterns === undefined) return () => true
  const exact = new Set(patterns.filter((pattern) => !pattern.endsWith("*")))
  const beginnings = patterns.filter((pattern) => pattern.endsWith("*")).map((pattern) => pattern.slice(0, -1))
  return (type) => exact.has(type) || beginnings.some((beginning) => type.startsWith(beginning))
}

/** Fields of an event of an application: plain JSON. */
export type OwnEventFields = Readonly<Record<string, unknown>>

const MAX_TYPE = 100
/** Largest fields, as JSON, in bytes. */
const MAX_BYTES = 64 * 1024

/** At least two lower case words. */
const TYPE = /^[a-z][a-z0-9]*(?:-[a-z0-9]+)+$/
/** Categories of Callboard's own events. An application must not send such events, because readers trust them. */
const CATEGORIES = ["task", "worker", "step"]
/** Fields that every event has, which the sender sets. */
const COMMON = ["type", "hostname", "timestamp", "utcoffset", "pid", "clock"]
/** Names that are no plain fields: `__type__` marks a typed value on the wire, the others reach into prototypes. */
const UNSAFE = ["__type__", "__proto__", "constructor", "prototype"]

const refuse: (field: string, message: string) => never = (field, message) => {
  throw new CallboardError("invalid-input", `${field}: ${message}`, { field })
}

const checkJson = (value: unknown, field: string, depth: number): void => {
  if (depth > MAX_DEPTH) refuse(field, `must not be nested deeper than ${MAX_DEPTH}`)
  switch (typeof value) {
    case "string":
    case "boolean":
      return
    case "number":
      if (!Number.isFinite(value)) refuse(field, "must be JSON: no NaN and no Infinity")
      return
    case "object":
      if (value === null) return
      if (Array.isArray(value)) {
        for (const [at, inner] of value.entries()) checkJson(inner, `${field}[${at}]`, depth + 1)
        return
      }
      if (!isPlainObject(value)) refuse(field, "must be plain JSON: text, a number, a list or a map")
      for (const [key, inner] of Object.entries(value)) {
        if (UNSAFE.includes(key)) refuse(`${field}.${key}`, "is not a field name")
        // An undefined field is left out, as in JSON.
        if (inner !== undefined) checkJson(inner, `${field}.${key}`, depth + 1)
      }
      return
    default:
      refuse(field, `must be plain JSON, not a ${typeof value}`)
  }
}

/**
 * Checks an event of an application. `taken`: names of further fields that Callboard sets. Throws `CallboardError`
 * `invalid-input`, naming the field.
 */
export const checkOwnEvent = (type: unknown, fields: unknown, taken: ReadonlyArray<string> = []): void => {
  if (typeof type !== "string" || type.length > MAX_TYPE || !TYPE.test(type)) {
    refuse("type", `must be category-action in lower case, such as order-shipped, with at most ${MAX_TYPE} characters`)
  }
  const [category = ""] = type.split("-")
  if (CATEGORIES.includes(category))
    refuse("type", `${category}-… is reserved for events of workers: choose another category`)
  if (!isPlainObject(fields)) {
    refuse("fields", "must be a map of names and JSON values")
  }
  for (const name of [...COMMON, ...taken]) {
    if (Object.hasOwn(fields, name)) refuse(`fields.${name}`, "is set by Callboard: choose another name")
  }
  checkJson(fields, "fields", 0)
  const bytes = byteLength(JSON.stringify(fields))
  if (bytes > MAX_BYTES) refuse("fields", `have ${bytes} bytes as JSON; at most ${MAX_BYTES} are allowed`)
}
