/**
 * Publishes tasks to the queue stream. A task that is due goes to the subject that its consumer reads; a later one
 * becomes a message schedule, which the server moves there in time.
 */
import { isLevel } from "../../../runtime/protocol/message.ts"
import { checkLevel } from "../../../runtime/transport/checks.ts"
import type { Posting, Receipt } from "../../../runtime/transport/driver.ts"
import { TransportError } from "../../../runtime/transport/mod.ts"
import { sleep } from "../../../runtime/transport/timers.ts"
import { asTransportError } from "../connection/answers.ts"
import type { ServerClock } from "../connection/server-clock.ts"
import { escapeToken, type Names } from "../streams/names.ts"
import type { Outgoing, Published, StreamPublisher } from "../streams/publisher.ts"
import { indexLine, type StreamReader } from "../streams/reader.ts"
import type { Consumers, Lane } from "./consumers.ts"

/** Header of a task that expires: when, in milliseconds since the epoch. */
export const EXPIRES_HEADER = "Callboard-Expires"

/** Header of a task that is due later: `@at` and the time. */
export const SCHEDULE_HEADER = "Nats-Schedule"

/** How far ahead a due time may be: the server counts nanoseconds in 63 bits, and writes years with four digits. */
export const MAX_MS = 100 * 365 * 86_400_000

/** How long a receipt waits until a new queue can be listed. */
const LISTED_MS = 200

export class TaskPublisher {
  readonly #publisher: StreamPublisher
  readonly #consumers: Consumers
  readonly #names: Names
  readonly #maxTask: number
  readonly #backlog: Backlog | undefined
  readonly #clock: ServerClock
  /** Whether the server does not allow this user to create consumers: then the workers do. */
  #mayNotCreate = false

  constructor(parts: {
    publisher: StreamPublisher
    consumers: Consumers
    names: Names
    maxTask: number
    backlog: Backlog | undefined
    clock: ServerClock
  }) {
    this.#publisher = parts.publisher
    this.#consumers = parts.consumers
    this.#names = parts.names
    this.#maxTask = parts.maxTask
    this.#backlog = parts.backlog
    this.#clock = parts.clock
  }

  /** A posting as a message. Fails with `unsupported`, `invalid` or `too-large`. */
  prepare({ id, key, level, queue, due, expires, index, frame }: Posting): Outgoing {
    checkLevel(id, level)
    if (frame.length > this.#maxTask) {
      throw new TransportError("too-large", `${id}: ${frame.length} bytes; at most ${this.#maxTask} are allowed`)
    }
    const band = this.#consumers.bands.of(level)
    const target = this.#names.task("j", queue, band, id, index)
    const expiry = expires === undefined ? "" : `${EXPIRES_HEADER}: ${Math.floor(expires)}\r\n`
    const headers = `Nats-Msg-Id: ${PLAIN_KEY.test(key) ? key : escapeToken(key)}\r\n${expiry}${indexLine(index)}`
    if (due === undefined || due <= this.#clock.now()) return { subject: target, headers, payload: frame }
    if (!(due <= this.#clock.now() + MAX_MS))
      throw new TransportError("unsupported", `${id}: this transport keeps tasks for at most a hundred years`)
    // The server removes the publish key from the scheduled message when it is due, so that the task is not taken for a
    // duplicate of its schedule.
    const schedule = `${SCHEDULE_HEADER}: @at ${new Date(due).toISOString()}\r\nNats-Schedule-Target: ${target}\r\n`
    return { subject: this.#names.task("s", queue, band, id, index), headers: headers + schedule, payload: frame }
  }

  /**
   * Publishes tasks that are submitted. A posting that cannot be prepared fails alone. What follows from an outcome is
   * published by {@link send}: no bound of the backlog refuses it.
   */
  async publish(postings: ReadonlyArray<Posting>): Promise<ReadonlyArray<Receipt>> {
    const refusal = this.#backlog === undefined ? undefined : await this.#backlog.admit(postings)
    if (refusal !== undefined) return postings.map(() => ({ status: "failed", error: refusal }))
    const outgoing: Array<Outgoing> = []
    const places: Array<number> = []
    const receipts: Array<Receipt> = []
    postings.forEach((posting, index) => {
      try {
        outgoing.push(this.prepare(posting))
        places.push(index)
      } catch (error) {
        receipts[index] = { status: "failed", error: asTransportError(error) }
      }
    })
    const published = await this.send(postings, outgoing)
    published.forEach((result, at) => {
      receipts[places[at] ?? at] = receiptOf(result)
    })
    return receipts
  }

  /** Publishes prepared messages, and creates consumers for new queues. */
  async send(postings: ReadonlyArray<Posting>, outgoing: ReadonlyArray<Outgoing>): Promise<ReadonlyArray<Published>> {
    const unknown = new Set<Lane>()
    for (const { queue, level } of postings) {
      if (!isLevel(level)) continue
      const lane = this.#consumers.lane(queue, level)
      if (!lane.made && !this.#mayNotCreate) unknown.add(lane)
    }
    // The stream keeps tasks that no consumer covers yet, so that tasks are accepted even if the consumers cannot be
    // created now.
    const making = unknown.size === 0 ? undefined : this.#make([...unknown])
    const published = await this.#publisher.publish(outgoing)
    // In a cluster that lacks a server creating a consumer takes seconds: the receipt of a stored task does not wait
    // for that.
    if (making !== undefined) await Promise.race([making, sleep(LISTED_MS)])
    return published
  }

  async #make(lanes: ReadonlyArray<Lane>): Promise<void> {
    await this.#consumers.ensure(lanes).catch((error: unknown) => {
      if (error instanceof TransportError && error.reason === "unauthorized") this.#mayNotCreate = true
    })
  }
}

/** How long a measured size of the backlog is used, in milliseconds. In that time submissions of other processes are not counted. */
const MEASURED_MS = 500

/** The bound of all tasks that wait, by which submissions are refused. */
export class Backlog {
  readonly #tasks: StreamReader
  readonly #max: number
  #measured = { bytes: 0, until: 0 }

  /** `tasks` reads the queue stream; `max` is in bytes. */
  constructor(tasks: StreamReader, max: number) {
    this.#tasks = tasks
    this.#max = max
  }

  /** Counts tasks that are about to be submitted. Resolves with an error if the backlog is at its bound. */
  async admit(postings: ReadonlyArray<Posting>): Promise<TransportError | undefined> {
    const now = performance.now()
    if (now >= this.#measured.until)
      this.#measured = { bytes: (await this.#tasks.bounds()).bytes, until: now + MEASURED_MS }
    const { bytes } = this.#measured
    if (bytes < this.#max) {
      this.#measured.bytes += postings.reduce((sum, { frame }) => sum + frame.length, 0)
      return undefined
    }
    return new TransportError(
      "unavailable",
      `the queues hold ${bytes} bytes of tasks, but ?maxBacklog allows ${this.#max}: submit again when workers have caught up, purge a queue, or raise the limit`,
    )
  }
}

const STORED: Receipt = { status: "stored" }
const DUPLICATE: Receipt = { status: "duplicate" }

const receiptOf = (result: Published): Receipt => {
  if (result.status === "failed") return result
  if (result.status === "stored") return result.duplicate ? DUPLICATE : STORED
  return {
    status: "failed",
    error: new TransportError("internal", "the server rejected the message without giving a reason"),
  }
}

/** Publish keys that a header can hold unescaped. */
const PLAIN_KEY = /^[A-Za-z0-9_/.:-]+$/
