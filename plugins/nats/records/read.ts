/**
 * Finds jobs. Looks where a job was before where it goes (queue, then record), so that one in motion is seen at least once,
 * and confirms a miss once, on the leader.
 */
import type { Index, Known, QueuedTask } from "../../../runtime/transport/known.ts"
import { EXPIRES_HEADER, SCHEDULE_HEADER } from "../queue/publish.ts"
import type { Names } from "../streams/names.ts"
import { indexOf, type StoredMessage, type StreamReader } from "../streams/reader.ts"
import { classOf, LIVE, type Records, STALE_MS, type StoredRecord } from "./records.ts"

/** A task in the queue stream. */
export interface FoundTask {
  readonly id: string
  readonly seq: number
  readonly index: Index | undefined
  readonly task: QueuedTask
}

/** Where a job was found. */
export interface Located {
  readonly task: FoundTask | undefined
  readonly record: StoredRecord | undefined
}

export class JobReader {
  readonly #names: Names
  readonly #tasks: StreamReader
  readonly #records: Records

  /** `tasks` reads the queue stream. */
  constructor(parts: { names: Names; tasks: StreamReader; records: Records }) {
    this.#names = parts.names
    this.#tasks = parts.tasks
    this.#records = parts.records
  }

  async read(ids: ReadonlyArray<string>): Promise<ReadonlyArray<Known | undefined>> {
    const found = new Map(await this.locate(ids))
    const missed = ids.filter((id) => knownOf(found.get(id)) === undefined)
    for (const [id, located] of await this.locate(missed, true)) found.set(id, located)
    return ids.map((id) => knownOf(found.get(id)))
  }

  /** What there is about these jobs, by id. */
  async locate(ids: ReadonlyArray<string>, current = false): Promise<ReadonlyMap<string, Located>> {
    const messages = await this.#tasks.last(
      ids.map((id) => this.#names.tasksOf(id)),
      current,
    )
    // Not before: the task of a job leaves the queue after its record was written.
    const records = await this.#records.read(ids)
    const tasks = new Map<string, FoundTask>()
    // Of several tasks of one job the newest is the one that counts; they come in order.
    for (const message of messages) {
      const task = taskIn(message, this.#names)
      if (task !== undefined && task.seq > (tasks.get(task.id)?.seq ?? 0)) tasks.set(task.id, task)
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
export const taskIn = (message: StoredMessage, names: Names): FoundTask | undefined => {
  const address = names.parseTask(message.subject)
  if (address === undefined) return undefined
  const { id, queue, scheduled } = address
  const due = Date.parse(message.header(SCHEDULE_HEADER).slice("@at ".length))
  const expires = expiresOf(message)
  return {
    id,
    seq: message.seq,
    index: indexOf(message),
    task: {
      queue,
      at: message.time,
      content: message.data.slice(),
      ...(scheduled && Number.isFinite(due) ? { due } : {}),
      ...(expires === undefined ? {} : { expires }),
    },
  }
}

export const expiresOf = (message: StoredMessage): number | undefined => {
  const text = message.header(EXPIRES_HEADER)
  return text === "" ? undefined : Number(text)
}

// ── orphaned jobs ────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Finds jobs whose record waits for a task that is in no queue: whoever stored the record ended before the task was posted.
 * Records that wait are listed anew each time they are stored, so that one which has its task is looked at once.
 */
const BATCH = 256

/** Entries that one look reads; the next look goes on where this one ended. */
const SLICE = 4_000

export class OrphanFinder {
  readonly #names: Names
  readonly #jobReader: JobReader
  readonly #states: StreamReader
  /** Entries before this one have been found to be of jobs that have a task, or need none. */
  #from = 1
  /** The first one since of which that is not so: where the look begins anew, in case nobody has posted its task. */
  #again: number | undefined

  /** `states` reads the state stream. */
  constructor(parts: { names: Names; jobReader: JobReader; states: StreamReader }) {
    this.#names = parts.names
    this.#jobReader = parts.jobReader
    this.#states = parts.states
  }

  async find(before: number, max: number): Promise<ReadonlyArray<string>> {
    const found: Array<string> = []
    let read = 0
    for await (const messages of this.#states.batches(this.#names.entries(LIVE, undefined), this.#from, BATCH)) {
      const old = messages.filter(({ time }) => time <= before)
      const entries = old.map(({ subject, seq, time }) => ({ id: this.#names.idIn(subject), seq, time }))
      const located = await this.#jobReader.locate(
        entries.map(({ id }) => id),
        true,
      )
      const stale: Array<number> = []
      for (const { id, seq, time } of entries) {
        const index = located.get(id)?.record?.index
        if (isOrphan(located.get(id))) {
          found.push(id)
          this.#again ??= seq
        } else if ((index === undefined || classOf(index) !== LIVE) && time + STALE_MS < before) stale.push(seq)
      }
      await this.#states.remove(stale)
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

const isOrphan = (located: Located | undefined): boolean => {
  const state = located?.record?.index?.state
  return (state === "queued" || state === "scheduled") && located?.task === undefined
}
