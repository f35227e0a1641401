/**
 * Reads jobs, and finds those that are orphaned. A job moves from the queue to its record, so that the queue is read
 * first: then a moving job is seen at least once. A miss is confirmed once, on the leader.
 */
import { isFrame } from "../../../runtime/protocol/envelope.ts"
import type { Index, Known, QueuedTask } from "../../../runtime/transport/known.ts"
import { copyOf } from "../connection/answers.ts"
import type { Consumers } from "../queue/consumers.ts"
import { nativeExpires, readNative } from "../queue/native.ts"
import { EXPIRES_HEADER, SCHEDULE_HEADER } from "../queue/publish.ts"
import type { Names } from "../streams/names.ts"
import { indexOf, type StoredMessage, type StreamReader } from "../streams/reader.ts"
import { classOf, LIVE, type Records, STALE_MS, type StoredRecord } from "./records.ts"

/** A task in the queue stream. */
export interface FoundTask {
  readonly id: string
  readonly seq: number
  readonly band: number
  readonly scheduled: boolean
  readonly index: Index | undefined
  readonly task: QueuedTask
}

/** The task and the record of a job, as far as there are. */
export interface Located {
  readonly task: FoundTask | undefined
  readonly record: StoredRecord | undefined
}

export class JobReader {
  readonly #names: Names
  readonly #tasks: StreamReader
  readonly #records: Records
  readonly #consumers: Pick<Consumers, "list">
  readonly #maxTask: number

  /** `tasks` reads the queue stream; `maxTask` is the largest task, in bytes. */
  constructor(parts: {
    names: Names
    tasks: StreamReader
    records: Records
    consumers: Pick<Consumers, "list">
    maxTask: number
  }) {
    this.#names = parts.names
    this.#tasks = parts.tasks
    this.#records = parts.records
    this.#consumers = parts.consumers
    this.#maxTask = parts.maxTask
  }

  async read(ids: ReadonlyArray<string>): Promise<ReadonlyArray<Known | undefined>> {
    const found = new Map(await this.locate(ids))
    const missed = ids.filter((id) => knownOf(found.get(id)) === undefined)
    for (const [id, located] of await this.locate(missed, true)) found.set(id, located)
    return Promise.all(ids.map(async (id) => knownOf(await this.#withHolder(found.get(id)))))
  }

  /**
   * Adds whether a task that has expired was delivered: it must not count as one that was never started. Of other tasks
   * that is not asked, since it costs a request. What was delivered counts as held, unless its record says that it waits.
   */
  async #withHolder(located: Located | undefined): Promise<Located | undefined> {
    const { task: found, record } = located ?? {}
    if (found === undefined || found.scheduled || (found.task.expires ?? Infinity) > Date.now()) return located
    const lanes = await this.#consumers.list(found.task.queue).catch(() => undefined)
    if (lanes === undefined) return located
    const delivered = lanes.find(({ band }) => band === found.band)?.delivered ?? 0
    const state = record?.index?.state
    const holder = found.seq > delivered ? { deliveries: 0 } : { held: state !== "queued" && state !== "scheduled" }
    return { record, task: { ...found, task: { ...found.task, ...holder } } }
  }

  /** Task and record of these jobs, by id. `current` reads from the leader. */
  async locate(ids: ReadonlyArray<string>, current = false): Promise<ReadonlyMap<string, Located>> {
    const messages = await this.#tasks.last(
      ids.map((id) => this.#names.tasksOf(id)),
      current,
    )
    // Records are read after the tasks: a task leaves its queue after its record was written.
    const records = await this.#records.read(ids)
    const tasks = new Map<string, FoundTask>()
    // Of several tasks of a job the newest counts; the messages come in order. Without a record the task of another program
    // counts where there was none before it.
    for (const message of messages) {
      const task = taskIn(message, this.#names, this.#maxTask)
      if (task === undefined) continue
      if (isFrame(message.data) || records.has(task.id) || !tasks.has(task.id)) tasks.set(task.id, task)
    }
    return new Map(ids.map((id) => [id, { task: tasks.get(id), record: records.get(id) }]))
  }
}

export const knownOf = (located: Located | undefined): Known | undefined => {
  const { record, task } = located ?? {}
  if (record === undefined) return task && { revision: "", task: task.task }
  const { revision, bytes } = record
  return { revision, record: bytes, ...(task === undefined ? {} : { task: task.task }) }
}

/** The task in a message of the queue stream. */
const taskIn = (message: StoredMessage, names: Names, maxTask: number): FoundTask | undefined => {
  const address = names.parseTask(message.subject)
  if (address === undefined) return undefined
  const { id, queue, band, scheduled } = address
  const { subject, data, block } = message
  const due = Date.parse(message.header(SCHEDULE_HEADER).slice("@at ".length))
  const expires = expiresOf(message)
  return {
    id,
    seq: message.seq,
    band,
    scheduled,
    index: indexOf(message),
    task: {
      queue,
      at: message.time,
      sequence: message.seq,
      content: isFrame(data) ? copyOf(data) : readNative({ subject, band, block, data }, maxTask),
      ...(scheduled && Number.isFinite(due) ? { due } : {}),
      ...(expires === undefined ? {} : { expires }),
    },
  }
}

export const expiresOf = (message: StoredMessage): number | undefined => {
  const text = message.header(EXPIRES_HEADER)
  return text === "" ? nativeExpires(message) : Number(text)
}

// ── orphaned jobs ────────────────────────────────────────────────────────────────────────────────────────────────────

const BATCH = 256

/** Most entries that one search reads; the next search goes on behind them. */
const SLICE = 4_000

/**
 * Finds orphaned jobs: the record says that the job waits for a task, and no queue has it, because the process that
 * stored the record ended before it published the task. A record that waits gets a new entry each time it is stored, so
 * that one that has its task is looked at once.
 */
export class OrphanFinder {
  readonly #names: Names
  readonly #jobReader: JobReader
  readonly #index: StreamReader
  /** Entries before this sequence belong to jobs that have a task, or need none. */
  #from = 1
  /**
   * Sequence of the first orphan found since then: the search begins there again, in case the runtime has not published
   * its task.
   */
  #again: number | undefined

  /** `index` reads the index stream. */
  constructor(parts: { names: Names; jobReader: JobReader; index: StreamReader }) {
    this.#names = parts.names
    this.#jobReader = parts.jobReader
    this.#index = parts.index
  }

  async find(before: number, max: number, parked?: number): Promise<ReadonlyArray<string>> {
    const found: Array<string> = []
    let read = 0
    for await (const messages of this.#index.batches(this.#names.entries(LIVE), this.#from, BATCH)) {
      const old = messages.filter(({ time }) => time <= before)
      const entries = old.map(({ subject, seq, time }) => ({ id: this.#names.idIn(subject), seq, time }))
      const located = await this.#jobReader.locate(
        entries.map(({ id }) => id),
        true,
      )
      const stale: Array<number> = []
      for (const { id, seq, time } of entries) {
        const index = located.get(id)?.record?.index
        if (isOrphan(located.get(id), parked)) {
          found.push(id)
          this.#again ??= seq
        } else if ((index === undefined || classOf(index) !== LIVE) && time + STALE_MS < before) stale.push(seq)
      }
      await this.#index.remove(stale)
      this.#from = (old[old.length - 1]?.seq ?? this.#from - 1) + 1
      read += messages.length
      if (read >= SLICE || found.length >= max) return found.slice(0, max)
      if (old.length < messages.length) break
    }
    this.#from = this.#again ?? this.#from
    this.#again = undefined
    return found
  }
}

const isOrphan = ({ record, task }: Partial<Located> = {}, parked: number | undefined): boolean => {
  const state = record?.index?.state
  if (task === undefined) return state === "queued" || state === "scheduled"
  // The task that was to start later is there, and the one that is to start now is not.
  return state === "queued" && task.task.due !== undefined && task.task.due !== parked
}
