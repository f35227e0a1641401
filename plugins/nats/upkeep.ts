/** What maintenance asks: how full the queues are, what waits in them, and what waits in vain. */
import type { QueueStats } from "../../runtime/transport/mod.ts"
import { type Journal, readRecord } from "./journal.ts"
import type { Consumers, LaneInfo } from "./queue/consumers.ts"
import { EXPIRES_HEADER } from "./queue/posts.ts"
import { escapeToken, type Names, unescapeToken } from "./streams/names.ts"
import type { Reader, StoredMessage } from "./streams/reader.ts"
import { readWaiting } from "./views.ts"

export interface UpkeepParts {
  readonly names: Names
  readonly consumers: Consumers
  readonly journal: Journal
  /** Of the queue stream. */
  readonly tasks: Reader
  /** Of the state stream. */
  readonly states: Reader
}

const BATCH = 256

/** Tasks or records that one look reads; the next look goes on where this one ended. */
const SLICE = 4_000

export class Upkeep {
  readonly #parts: UpkeepParts
  /** Where the next look for overdue tasks begins. */
  #overdueFrom = 1
  /** Records before this one have been found to have their task, or not to need one. */
  #strandedFrom = 1
  /** The first one since that did not: where the look begins anew, in case nobody has posted it. */
  #strandedAgain: number | undefined

  constructor(parts: UpkeepParts) {
    this.#parts = parts
  }

  async stats(): Promise<ReadonlyArray<QueueStats>> {
    const byQueue = new Map<string, Array<LaneInfo>>()
    for (const lane of await this.#parts.consumers.list()) {
      const lanes = byQueue.get(lane.queue)
      if (lanes === undefined) byQueue.set(lane.queue, [lane])
      else lanes.push(lane)
    }
    return Promise.all([...byQueue].map(([queue, lanes]) => this.#statsOf(queue, lanes)))
  }

  /** Ids of tasks that wait in a queue, in the order in which they are handed over; scheduled ones come last. */
  async waiting(queue: string, max: number): Promise<ReadonlyArray<string>> {
    const { names, consumers } = this.#parts
    const delivered = deliveredOf(await consumers.list(queue))
    const ids = new Set<string>()
    const bands = consumers.bands.levels.map((band) => names.band(queue, band))
    for (const filter of [...bands, names.tasksIn("s", queue)]) {
      for await (const messages of this.#batches(this.#parts.tasks, filter, 1)) {
        for (const { id } of await this.#waitingOf(messages, delivered)) {
          if (ids.size < max) ids.add(id)
        }
        if (ids.size >= max) return [...ids]
      }
    }
    return [...ids]
  }

  /**
   * Ids of tasks that wait past their time, those that expired first before the others. Reads one slice of what waits,
   * from where the last look ended, so that a long queue is looked through over several looks.
   */
  async overdue(now: number, max: number): Promise<ReadonlyArray<string>> {
    const { names, consumers } = this.#parts
    const delivered = deliveredOf(await consumers.list())
    const found: Array<{ id: string; expires: number }> = []
    let read = 0
    let next = 1
    for await (const messages of this.#batches(this.#parts.tasks, `${names.namespace}.>`, this.#overdueFrom)) {
      const late = messages.filter((message) => (expiresOf(message) ?? Infinity) <= now)
      for (const { id, message } of await this.#waitingOf(late, delivered)) {
        found.push({ id, expires: expiresOf(message) ?? 0 })
      }
      read += messages.length
      next = (messages[messages.length - 1]?.seq ?? 0) + 1
      if (read >= SLICE) break
      next = 1
    }
    // What does not fit into the answer must be found again.
    this.#overdueFrom = found.length > max ? this.#overdueFrom : next
    found.sort((a, b) => a.expires - b.expires)
    return found.slice(0, max).map(({ id }) => id)
  }

  /**
   * Ids of jobs whose record waits with its own task, stored at `before` or earlier, while none is in a queue. A record
   * that has its task is looked at once: what changes is written anew, further up.
   */
  async stranded(before: number, max: number): Promise<ReadonlyArray<string>> {
    const { names, states } = this.#parts
    const found: Array<string> = []
    let read = 0
    for await (const messages of this.#batches(states, names.recordsIn("live", undefined), this.#strandedFrom)) {
      const old = messages.filter(({ time }) => time <= before)
      for (const { id, seq } of await this.#alone(old)) {
        found.push(id)
        this.#strandedAgain ??= seq
      }
      this.#strandedFrom = (old[old.length - 1]?.seq ?? this.#strandedFrom - 1) + 1
      read += messages.length
      if (read >= SLICE || found.length >= max) return found.slice(0, max)
      if (old.length < messages.length) break
    }
    this.#strandedFrom = this.#strandedAgain ?? this.#strandedFrom
    this.#strandedAgain = undefined
    return found
  }

  /** Those of these records that wait with a task of their own, which is in no queue. */
  async #alone(
    messages: ReadonlyArray<StoredMessage>,
  ): Promise<ReadonlyArray<{ readonly id: string; readonly seq: number }>> {
    const { names, tasks } = this.#parts
    const waiting = messages.flatMap((message) => {
      const { id, state, message: task } = readRecord(message)
      const waits = state === "queued" || state === "scheduled"
      return waits && task !== undefined ? [{ id, seq: message.seq }] : []
    })
    const found = await tasks.last(
      waiting.map(({ id }) => names.tasksOf(escapeToken(id))),
      true,
    )
    const there = new Set(found.map(({ subject }) => names.parseTask(subject)?.idToken))
    return waiting.filter(({ id }) => !there.has(escapeToken(id)))
  }

  async #statsOf(queue: string, lanes: ReadonlyArray<LaneInfo>): Promise<QueueStats> {
    const { names, tasks } = this.#parts
    const [scheduled, ...firsts] = await Promise.all([
      tasks.count(names.tasksIn("s", queue)),
      ...lanes
        .filter(({ pending }) => pending > 0)
        .map(async ({ band, delivered }) => (await tasks.from(delivered + 1, names.band(queue, band), 1)).messages[0]),
    ])
    const times = firsts.flatMap((message) => (message === undefined ? [] : [this.#submittedAt(message)]))
    return {
      queue,
      ready: lanes.reduce((sum, { pending }) => sum + pending, 0),
      scheduled,
      inFlight: lanes.reduce((sum, { inFlight }) => sum + inFlight, 0),
      ...(times.length === 0 ? {} : { oldest: Math.min(...times) }),
    }
  }

  #submittedAt(message: StoredMessage): number {
    const waiting = readWaiting(message, this.#parts.names)
    const own: unknown = waiting?.message.headers["callboard"]
    const at = typeof own === "object" && own !== null && "submittedAt" in own ? own.submittedAt : undefined
    return typeof at === "number" ? at : message.time
  }

  async *#batches(reader: Reader, filter: string, from: number): AsyncGenerator<ReadonlyArray<StoredMessage>> {
    for (let seq = from; ; ) {
      const { messages, more } = await reader.from(seq, filter, BATCH)
      if (messages.length > 0) yield messages
      if (more === 0 || messages.length === 0) return
      seq = (messages[messages.length - 1]?.seq ?? seq) + 1
    }
  }

  /**
   * The tasks of these messages that are in nobody's hands. What its consumer has handed over once may be in hand: only
   * if the job's record says that it was handed back, it waits.
   */
  async #waitingOf(
    messages: ReadonlyArray<StoredMessage>,
    delivered: (queue: string, band: number) => number,
  ): Promise<ReadonlyArray<{ readonly id: string; readonly message: StoredMessage }>> {
    const { names, journal } = this.#parts
    const sure: Array<{ id: string; message: StoredMessage }> = []
    const unsure: Array<{ id: string; message: StoredMessage }> = []
    for (const message of messages) {
      const address = names.parseTask(message.subject)
      if (address === undefined) continue
      const id = unescapeToken(address.idToken)
      const waits = address.scheduled || message.seq > delivered(address.queue, address.band)
      const list = waits ? sure : unsure
      list.push({ id, message })
    }
    if (unsure.length === 0) return sure
    const kept = await journal.read(unsure.map(({ id }) => id))
    const back = unsure.filter(({ id }) => {
      const state = kept.get(id)?.record.state
      return state === "queued" || state === "scheduled"
    })
    return [...sure, ...back]
  }
}

const expiresOf = (message: StoredMessage): number | undefined => {
  const text = message.header(EXPIRES_HEADER)
  return text === "" ? undefined : Number(text)
}

/** The highest sequence that was handed over, by queue and band. */
const deliveredOf = (lanes: ReadonlyArray<LaneInfo>) => {
  const byLane = new Map(lanes.map(({ queue, band, delivered }) => [`${band} ${queue}`, delivered]))
  return (queue: string, band: number): number => byLane.get(`${band} ${queue}`) ?? 0
}
