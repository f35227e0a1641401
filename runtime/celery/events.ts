/**
 * Sends events to monitors of Celery. Task events of one turn of the event loop share a message, as with Celery's workers.
 */
import * as Result from "effect/Result"
import type { Log } from "../log/log.ts"
import { encodeEvents, joinEvents } from "../protocol/celery/event.ts"
import { jsonCodec } from "../protocol/codec/json.ts"
import type { CeleryMessages } from "../transport/celery.ts"
import { nextTurn } from "../transport/timers.ts"
import type { EventEmitter } from "../worker/telemetry/event-emitter.ts"

/** Exchange of events. The routing key is the type of the event with a dot in place of the hyphen. */
export const EVENT_EXCHANGE = "celeryev"

/** Most events in one message, as in Celery. */
const BATCH = 24
/** Most events that wait to be sent; further ones are dropped. */
const BUFFER = 1_000

export interface CeleryEventsOptions {
  readonly messages: Pick<CeleryMessages, "broadcast">
  /** Name of the worker in its events. */
  readonly node: string
  /** Whether task events are sent from the start. Worker events are always sent. */
  readonly enabled: boolean
  readonly log: Log
}

export class CeleryEvents implements EventEmitter {
  /** Whether task events are sent. Commands of Celery's remote control change it. */
  enabled: boolean
  readonly #options: CeleryEventsOptions
  /** Lamport clock: an event that is sent after a message was received has a larger value than that message. */
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

  /** Sets the clock after a message that was received, which has this clock. */
  received(clock: unknown): void {
    if (typeof clock === "number" && Number.isSafeInteger(clock)) this.#clock = Math.max(this.#clock, clock) + 1
  }

  emit(type: string, fields: Readonly<Record<string, unknown>>): void {
    const { node, log } = this.#options
    const encoded = encodeEvents({
      ...fields,
      type,
      hostname: node,
      timestamp: Date.now() / 1000,
      // Monitors compare it with their own, which Python rounds down, too.
      utcoffset: Math.floor(new Date().getTimezoneOffset() / 60),
      pid: process.pid,
      clock: ++this.#clock,
    })
    if (Result.isFailure(encoded)) {
      log.debug("an event has no JSON form", { type, cause: encoded.failure.message })
      return
    }
    // Worker events are few, and are sent one by one: other workers select them by their routing key.
    if (!type.startsWith("task-")) {
      void this.#publish(type.replace("-", "."), encoded.success)
      return
    }
    if (this.#waiting.length < BUFFER) this.#waiting.push(encoded.success)
    this.#sending ??= nextTurn().then(() => this.#flush())
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
      log.debug("events could not be sent to Celery monitors", { cause: String(cause) })
    }
  }
}
