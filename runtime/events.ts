/**
 * Events in Celery's form (a type `category-action`, who tells it, when), spread over broadcast: best effort, to whoever
 * listens now. What must not be missed is in the records.
 */
import { hostname } from "node:os"
import { Result } from "effect"
import type { Board } from "./board.ts"
import type { Log } from "./log.ts"
import { decodeEvents, type EventFields, encodeEvents, type ReceivedEvent } from "./protocol/event.ts"

export type { ReceivedEvent } from "./protocol/event.ts"

/** Topic of events: JSON, one map or a list of them. */
const EVENT_TOPIC = "event"

/** Events that wait to be sent; of more than these the oldest are dropped. */
const BUFFER = 1_000
/** Events of one message. */
const BATCH = 100

/** Tells events in the name of one worker, several in a message where they come at once. Never fails. */
export class EventSender {
  readonly #board: Board
  readonly #log: Log
  readonly #name: string
  readonly #waiting: Array<ReceivedEvent> = []
  #clock = 0
  #sending = false

  constructor(board: Board, log: Log, name: string) {
    this.#board = board
    this.#log = log
    this.#name = `${name}@${hostname()}`
  }

  tell(type: string, fields: Readonly<Record<string, unknown>>): void {
    const common: EventFields = {
      hostname: this.#name,
      timestamp: Date.now() / 1000,
      utcoffset: 0,
      pid: process.pid,
      clock: ++this.#clock,
    }
    if (this.#waiting.length >= BUFFER) this.#waiting.shift()
    this.#waiting.push({ ...fields, ...common, type })
    if (this.#sending) return
    this.#sending = true
    // In the next turn: what happens in this one goes in one message.
    setImmediate(() => void this.#send())
  }

  async #send(): Promise<void> {
    while (this.#waiting.length > 0) {
      const some = this.#waiting.splice(0, BATCH)
      const [only] = some
      const encoded = encodeEvents(some.length === 1 && only !== undefined ? only : some)
      try {
        if (Result.isSuccess(encoded)) await this.#board.broadcast.send(EVENT_TOPIC, encoded.success)
      } catch (cause) {
        this.#log.debug("events could not be told", { count: some.length, cause: String(cause) })
      }
    }
    this.#sending = false
  }
}

/** Listens until the signal fires; resolves once it does listen. What is no event is passed over. */
export const listenToEvents = (
  board: Board,
  listener: (event: ReceivedEvent) => void,
  signal: AbortSignal,
): Promise<void> =>
  board.broadcast.listen(
    EVENT_TOPIC,
    (payload) => {
      const events = decodeEvents(payload)
      if (Result.isSuccess(events)) for (const event of events.success) listener(event)
    },
    signal,
  )
