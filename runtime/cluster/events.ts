/**
 * Events in Celery's form (a type `category-action`, who tells it, when), spread over broadcast: best effort, to whoever
 * listens now. What must not be missed is in the records.
 */
import { Result, Schema } from "effect"
import type { Connection } from "../connection/connection.ts"
import type { Log } from "../log/log.ts"
import {
  decodeEvents,
  type EventFields,
  encodeEvents,
  joinEvents,
  type ReceivedEvent,
} from "../protocol/celery/event.ts"

export type { ReceivedEvent } from "../protocol/celery/event.ts"

/** Topic of events: JSON, one map or a list of them. */
const EVENT_TOPIC = "event"

/** Events that wait to be sent, and their bytes; of more than these the oldest are dropped. */
const BUFFER = 1_000
const BUFFER_BYTES = 4 * 1024 * 1024
/** Events of one message, and their bytes, unless a single one has more: brokers refuse messages of a megabyte. */
const BATCH = 100
const BATCH_BYTES = 256 * 1024

/** A transport that does not answer must not keep a worker from ending. */
const FLUSH_MS = 2_000

export interface EventSenderOptions {
  readonly connection: Connection
  /** Who tells: `worker@host`. */
  readonly hostname: string
  /** Told of events that were lost, at level debug. */
  readonly log?: Pick<Log, "debug">
  /** Whether events about tasks are wanted. Defaults to false. */
  readonly enabled?: boolean
}

/** Tells events in one name, several in a message where they come at once. */
export class EventSender {
  /** Whether events about tasks are wanted. May be changed at any time; {@link tell} does not ask. */
  enabled: boolean
  readonly #connection: Connection
  readonly #hostname: string
  readonly #log: Pick<Log, "debug"> | undefined
  readonly #waiting: Array<Uint8Array> = []
  #bytes = 0
  #dropped = 0
  /** Lamport's: what happened after an event that was heard of has a larger one. */
  #clock = 0
  #sending: Promise<void> | undefined

  constructor({ connection, hostname, log, enabled = false }: EventSenderOptions) {
    this.#connection = connection
    this.#hostname = hostname
    this.#log = log
    this.enabled = enabled
  }

  /** Tells an event soon: what is told in one turn goes in one message. Never fails, never waits. */
  tell(type: string, fields: Readonly<Record<string, unknown>>): void {
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
    this.#sending ??= new Promise<void>((resolve) => setImmediate(resolve)).then(() => this.#send())
  }

  /** Tells an event now. Fails with `TransportError`. */
  async send(type: string, fields: Readonly<Record<string, unknown>>): Promise<void> {
    const encoded = Result.getOrThrow(encodeEvents(this.#eventOf(type, fields)))
    await this.#connection.broadcast.send(EVENT_TOPIC, encoded)
  }

  /** Resolves when everything that was told has been sent, or could not be; after 2 seconds in any case. */
  async flush(): Promise<void> {
    if (this.#sending === undefined) return
    let timer: ReturnType<typeof setTimeout> | undefined
    const patience = new Promise((resolve) => {
      timer = setTimeout(resolve, FLUSH_MS)
    })
    await Promise.race([this.#sending, patience])
    clearTimeout(timer)
  }

  /** An event was heard of: what is told from now on came after it. */
  heard(event: ReceivedEvent): void {
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

  /** The oldest that fit one message. */
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
        this.#log?.debug("events could not be told", { count: some.length, cause: String(cause) })
      }
      if (this.#dropped === 0) continue
      this.#log?.debug("events were dropped: more happened than could be told", { count: this.#dropped })
      this.#dropped = 0
    }
    this.#sending = undefined
  }
}

/** Listens until the signal fires; resolves once it does listen. What is no event is passed over. */
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

/** `task-failed`, `worker-*`, `*`. */
export const TypePattern = Schema.String.check(Schema.isPattern(/^(?=.)[A-Za-z0-9_-]{0,100}\*?$/))

export const TypePatterns = Schema.Array(TypePattern).check(Schema.isMinLength(1), Schema.isMaxLength(50))

/** Whether a type is one of those that were asked for; without patterns every type is. */
export const typeFilter = (patterns: ReadonlyArray<string> | undefined): ((type: string) => boolean) => {
  if (patterns === undefined) return () => true
  const exact = new Set(patterns.filter((pattern) => !pattern.endsWith("*")))
  const beginnings = patterns.filter((pattern) => pattern.endsWith("*")).map((pattern) => pattern.slice(0, -1))
  return (type) => exact.has(type) || beginnings.some((beginning) => type.startsWith(beginning))
}
