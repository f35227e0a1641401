/** All jobs of a board: their records, wherever they are, and those who watch them. */
import { decodeEnvelope } from "../../runtime/protocol/envelope.ts"
import { isUndecodable } from "../../runtime/protocol/message.ts"
import { isOfTask, recordOfPosting, tombstoneOf } from "../../runtime/protocol/record.ts"
import {
  type Found,
  type JobRecord,
  type RecordPage,
  type RecordQuery,
  TransportError,
} from "../../runtime/transport/mod.ts"
import { Heap } from "./heap.ts"
import { aged, read, write } from "./job.ts"
import { isHeld } from "./lane.ts"
import type { Job, Stored, Task } from "./state.ts"

/** So many per call, since a hundred thousand records may end at the same moment. */
const MOST_BURIALS = 200

type Listener = (record: JobRecord) => void

export class Jobs {
  readonly #maxRecord: number
  readonly #jobs = new Map<string, Job>()
  readonly #watchers = new Set<{ readonly id: string | undefined; readonly listener: Listener }>()
  /** Records that will become tombstones, and tombstones that will go. */
  readonly #ends = new Heap<{ readonly at: number; readonly job: Job; readonly stored: Stored }>(
    (a, b) => a.at < b.at,
    (end) => end.job.stored === end.stored,
  )
  #counter = 0

  constructor(maxRecord: number) {
    this.#maxRecord = maxRecord
  }

  get(id: string): Job | undefined {
    return this.#jobs.get(id)
  }

  /** The job of an id, made if need be. */
  of(id: string): Job {
    let job = this.#jobs.get(id)
    if (job === undefined) {
      const sequence = ++this.#counter
      job = { id, sequence, keys: [], tasks: [], delivered: false, stored: undefined, reported: undefined }
      this.#jobs.set(id, job)
    }
    return job
  }

  /** Stores a record. Fails with `too-large` or `invalid`, and then has stored nothing. */
  keep(record: JobRecord): void {
    const stored = write(record, String(++this.#counter), this.#maxRecord)
    this.#set(this.of(record.id), stored)
    this.tell(record)
  }

  /** Remembers how a run goes on, until a record says more. */
  report(job: Job, record: JobRecord): void {
    job.reported = write(record, "", this.#maxRecord)
    this.tell(record)
  }

  /** Nothing is kept about a job that has neither a task nor a record. */
  forget(job: Job): void {
    if (job.tasks.length === 0 && job.stored === undefined) this.#jobs.delete(job.id)
  }

  /** Makes tombstones of what was kept long enough, and clears away those that stood long enough: a few at a time. */
  bury(now: number): void {
    for (let count = 0; count < MOST_BURIALS; count++) {
      const end = this.#ends.peek()
      if (end === undefined || end.at > now) return
      this.#ends.pop()
      const { job, stored } = end
      job.stored = undefined
      // A task that is still out must find that the job is over.
      if (stored.tombstone && job.tasks.length === 0) this.forget(job)
      else this.#set(job, write(tombstoneOf(read(stored)), stored.revision, this.#maxRecord))
    }
  }

  find(id: string, now: number): Found | undefined {
    const job = this.#jobs.get(id)
    const record = job && this.#view(job, now)
    return record && { record, revision: job.stored?.revision ?? "" }
  }

  query(query: RecordQuery, now: number): RecordPage {
    const { limit } = query
    if (!(limit >= 1 && limit <= 1_000)) throw new TransportError("invalid", `a page holds 1 to 1,000, not ${limit}`)
    const after = query.after === undefined ? Infinity : cursorOf(query.after)
    const records: Array<JobRecord> = []
    let last = 0
    for (const job of [...this.#jobs.values()].reverse()) {
      if (job.sequence >= after) continue
      const record = this.#view(job, now)
      if (record === undefined || record.tombstone || !matches(record, query)) continue
      if (records.length === limit) return { records, next: String(last) }
      records.push(record)
      last = job.sequence
    }
    return { records }
  }

  /** Returns how to stop. */
  watch(id: string | undefined, listener: Listener): () => void {
    const watcher = { id, listener }
    this.#watchers.add(watcher)
    return () => void this.#watchers.delete(watcher)
  }

  get watched(): boolean {
    return this.#watchers.size > 0
  }

  tell(record: JobRecord): void {
    for (const { id, listener } of this.#watchers) {
      if (id === undefined || id === record.id) queueMicrotask(() => listener(structuredClone(record)))
    }
  }

  #set(job: Job, stored: Stored): void {
    if (job.stored !== undefined && job.stored.until < Infinity) this.#ends.wither()
    job.stored = stored
    job.reported = undefined
    if (stored.until < Infinity) this.#ends.push({ at: stored.until, job, stored })
  }

  /** A job as it is to be seen now. */
  #view(job: Job, now: number): JobRecord | undefined {
    const { stored, reported } = job
    const task = job.tasks.at(-1)
    const message = task && decodeEnvelope(task.frame.slice())
    const over = stored !== undefined && (stored.tombstone || stored.until <= now)
    if (over || task === undefined || message === undefined || isUndecodable(message))
      return stored && aged(stored, now)
    const held = isHeld(task, now)
    const known = held ? (reported ?? stored) : stored
    if (known === undefined) {
      const derived = recordOfPosting({ ...task.posting, message }, now)
      return derived._tag === "Success" ? { ...derived.success, message } : undefined
    }
    const record = read(known)
    const waits = !held && (record.state === "scheduled" || record.state === "queued")
    return { ...record, ...(waits ? { state: stateOf(task, now) } : {}), message }
  }
}

const stateOf = ({ place, alarm }: Task, now: number): "scheduled" | "queued" =>
  place === "scheduled" && alarm !== undefined && alarm.at > now ? "scheduled" : "queued"

const matches = (record: JobRecord, { states, dead, task, ...query }: RecordQuery): boolean =>
  (task === undefined || isOfTask(record, task)) &&
  (states === undefined || states.includes(record.state)) &&
  (!dead || record.dead !== undefined) &&
  FIELDS.every((field) => query[field] === undefined || query[field] === record[field])

const FIELDS = ["queue", "rootId", "parentId", "group"] as const

const cursorOf = (text: string): number => {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new TransportError("invalid", `not a cursor of this transport: ${JSON.stringify(text.slice(0, 40))}`)
}
