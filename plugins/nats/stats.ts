/** Counts the tasks in the queues, and lists those that wait. */
import type { QueueDepth } from "../../runtime/transport/optional.ts"
import type { Consumers, LaneInfo } from "./queue/consumers.ts"
import { expiresOf } from "./records/read.ts"
import type { Records } from "./records/records.ts"
import { COUNTABLE } from "./records/scan.ts"
import type { Names } from "./streams/names.ts"
import type { StoredMessage, StreamReader } from "./streams/reader.ts"
import { indexOf } from "./streams/reader.ts"

export interface QueueStatsParts {
  readonly names: Names
  readonly consumers: Consumers
  readonly records: Records
  /** Reads the queue stream. */
  readonly tasks: StreamReader
}

const BATCH = 256

/** Most tasks that one search for expired ones reads; the next search goes on behind them. */
const SLICE = 4_000

export class QueueStats {
  readonly #parts: QueueStatsParts
  /** Sequence at which the next search for expired tasks begins. */
  #expiredFrom = 1

  constructor(parts: QueueStatsParts) {
    this.#parts = parts
  }

  async queues(): Promise<ReadonlyArray<QueueDepth>> {
    const byQueue = new Map<string, Array<LaneInfo>>()
    for (const lane of await this.#parts.consumers.list()) {
      const lanes = byQueue.get(lane.queue)
      if (lanes === undefined) byQueue.set(lane.queue, [lane])
      else lanes.push(lane)
    }
    return Promise.all([...byQueue].map(([queue, lanes]) => this.#statsOf(queue, lanes)))
  }

  /** Ids of the jobs whose tasks wait in a queue, in the order of delivery; scheduled ones come last. */
  async waiting(queue: string, max: number): Promise<ReadonlyArray<string>> {
    const { names, consumers, tasks } = this.#parts
    const delivered = deliveredOf(await consumers.list(queue))
    const ids = new Set<string>()
    const bands = consumers.bands.levels.map((band) => names.band(queue, band))
    for (const filter of [...bands, names.tasksIn("s", queue)]) {
      for await (const messages of tasks.batches(filter, 1, BATCH)) {
        for (const { id } of await this.#waitingOf(messages, delivered)) {
          if (ids.size < max) ids.add(id)
        }
        if (ids.size >= max) return [...ids]
      }
    }
    return [...ids]
  }

  /**
   * Ids of the jobs whose tasks have expired before they were taken, longest ago first. Each call reads one slice of
   * the stream, from where the last call ended, so that a long queue is searched in several calls.
   */
  async expired(now: number, max: number): Promise<ReadonlyArray<string>> {
    const { names, consumers, tasks } = this.#parts
    const delivered = deliveredOf(await consumers.list())
    const found: Array<{ id: string; expires: number }> = []
    let read = 0
    let next = 1
    for await (const messages of tasks.batches(`${names.namespace}.>`, this.#expiredFrom, BATCH)) {
      const late = messages.filter((message) => (expiresOf(message) ?? Infinity) <= now)
      for (const { id, message } of await this.#waitingOf(late, delivered)) {
        found.push({ id, expires: expiresOf(message) ?? 0 })
      }
      read += messages.length
      next = (messages[messages.length - 1]?.seq ?? 0) + 1
      if (read >= SLICE) break
      next = 1
    }
    // Tasks that do not fit into this answer must be found again, so that the next search begins where this one did.
    this.#expiredFrom = found.length > max ? this.#expiredFrom : next
    found.sort((a, b) => a.expires - b.expires)
    return found.slice(0, max).map(({ id }) => id)
  }

  async #statsOf(queue: string, lanes: ReadonlyArray<LaneInfo>): Promise<QueueDepth> {
    const { names, tasks } = this.#parts
    const readyIn = async ({ band, delivered, pending }: LaneInfo) => {
      const filter = names.band(queue, band)
      if (pending <= COUNTABLE) return tasks.from(delivered + 1, filter, 1)
      const oldest = await tasks.next(delivered + 1, filter)
      return { messages: oldest === undefined ? [] : [oldest], more: pending - 1 }
    }
    const [scheduled, ...ready] = await Promise.all([
      tasks.count(names.tasksIn("s", queue)),
      ...lanes.filter(({ pending }) => pending > 0).map(readyIn),
    ])
    const times = ready.flatMap(({ messages }) => messages.map((message) => indexOf(message)?.at ?? message.time))
    return {
      queue,
      // What the consumers say (`pending`) may still count tasks that were taken off the queue since, which matters little
      // among many.
      ready: ready.reduce((sum, { messages, more }) => sum + messages.length + more, 0),
      scheduled,
      held: lanes.reduce((sum, { inFlight }) => sum + inFlight, 0),
      ...(times.length === 0 ? {} : { oldest: Math.min(...times) }),
    }
  }

  /**
   * The tasks of these messages that no delivery has. A message above its consumer's last delivered sequence was never
   * delivered. One below it may be in a delivery, unless the job's record says that the task waits: then it was
   * released.
   */
  async #waitingOf(
    messages: ReadonlyArray<StoredMessage>,
    delivered: (queue: string, band: number) => number,
  ): Promise<ReadonlyArray<{ readonly id: string; readonly message: StoredMessage }>> {
    const { names, records } = this.#parts
    const sure: Array<{ id: string; message: StoredMessage }> = []
    const unsure: Array<{ id: string; message: StoredMessage }> = []
    for (const message of messages) {
      const address = names.parseTask(message.subject)
      if (address === undefined) continue
      const waits = address.scheduled || message.seq > delivered(address.queue, address.band)
      const list = waits ? sure : unsure
      list.push({ id: address.id, message })
    }
    if (unsure.length === 0) return sure
    const stored = await records.read(unsure.map(({ id }) => id))
    const back = unsure.filter(({ id }) => {
      const state = stored.get(id)?.index?.state
      return state === "queued" || state === "scheduled"
    })
    return [...sure, ...back]
  }
}

/** Looks up the highest delivered sequence by queue and band. */
const deliveredOf = (lanes: ReadonlyArray<LaneInfo>) => {
  const byLane = new Map(lanes.map(({ queue, band, delivered }) => [`${band} ${queue}`, delivered]))
  return (queue: string, band: number): number => byLane.get(`${band} ${queue}`) ?? 0
}
