/** Events for monitors of Celery: those of one turn of the event loop in one message, as its workers send them. */
import * as Result from "effect/Result"
import type { Log } from "../log/log.ts"
import { encodeEvents, joinEvents } from "../protocol/celery/event.ts"
import { jsonCodec } from "../protocol/codec/json.ts"
import type { CeleryMessages } from "../transport/celery.ts"
import type { EventEmitter } from "../worker/telemetry/event-emitter.ts"

/** Exchange of events; the routing key is the type with a dot. */
export const EVENT_EXCHANGE = "celeryev"

/** Most events in one message, as Celery has it, and most that wait: beyond that they are dropped. */
const BATCH = 24
const BUFFER = 1_000

export interface CeleryEventsOptions {
  readonly messages: CeleryMessages
  /** Name of the node in its events. */
  readonly node: string
  readonly enabled: boolean
  readonly log: Log
}

export class CeleryEvents implements EventEmitter {
  /** Whether events about tasks are wanted. */
  enabled: boolean
  readonly #options: CeleryEventsOptions
  /** Lamport clock: an event that is sent after another one was received has a larger value. */
  #clock = 0
  #waiting: Array<Uint8Array> = []
  #sending: Promise<void> | undefined

  constructor(options: CeleryEventsOptions) {
    this.enabled = options.enabled
    this.#options = options
  }

  get clock(): number {
    return this.#clock
  }

  /** Notes the clock of a message that was received. */
  received(clock: number): void {
    this.#clock = Math.max(this.#clock, clock) + 1
  }

  emit(type: string, fields: Readonly<Record<string, unknown>>): void {
    const { node, log } = this.#options
    const encoded = encodeEvents({
      ...fields,
      type,
      hostname: node,
      timestamp: Date.now() / 1000,
      utcoffset: Math.trunc(new Date().getTimezoneOffset() / 60),
      pid: process.pid,
      clock: ++this.#clock,
    })
    if (Result.isFailure(encoded)) {
      log.debug("an event has no JSON form", { type, cause: encoded.failure.message })
      return
    }
    // Events of a worker are few, and other workers listen to them alone, by their routing key.
    if (!type.startsWith("task-")) {
      void this.#publish(type.replace("-", "."), encoded.success)
      return
    }
    if (this.#waiting.length < BUFFER) this.#waiting.push(encoded.success)
    this.#sending ??= new Promise<void>((resolve) => setImmediate(resolve)).then(() => this.#flush())
  }

  /** Resolves when all events so far were sent or dropped. */
  async flush(): Promise<void> {
    await this.#sending
  }

  async #flush(): Promise<void> {
    while (this.#waiting.length > 0) await this.#publish("task.multi", joinEvents(this.#waiting.splice(0, BATCH), true))
    this.#sending = undefined
  }

  async #publish(routingKey: string, body: Uint8Array): Promise<void> {
    const { messages, node, log } = this.#options
    const properties = {
      content_type: jsonCodec.contentType,
      content_encoding: jsonCodec.contentEncoding,
      delivery_mode: 1,
      priority: 0,
    }
    try {
      await messages.broadcast(EVENT_EXCHANGE, routingKey, { headers: { hostname: node }, properties, body })
    } catch (cause) {
      log.debug("events could not be told to monitors of Celery", { cause: String(cause) })
    }
  }
}
