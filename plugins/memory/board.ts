/**
 * One board in memory: queues, records, and commits that change both. Everything happens between two turns of the event
 * loop, so that each call is one transaction.
 */
import { Buffer } from "node:buffer"
import { FRONT_LEVEL } from "../../runtime/protocol/message.ts"
import type {
  Commit,
  CommitRecord,
  Committed,
  Delivery,
  Interest,
  News,
  Posting,
  Receipt,
  Taken,
  TakeRequest,
  TaskEnd,
} from "../../runtime/transport/driver.ts"
import type { Index, Known, QueuedTask } from "../../runtime/transport/known.ts"
import { TransportError } from "../../runtime/transport/mod.ts"
import type { FoundJobs, Query, QueueBrowser, QueueDepth } from "../../runtime/transport/optional.ts"
import { Lane, type Task } from "./lane.ts"
import { Sorted } from "./sorted.ts"

interface Stored extends Pick<CommitRecord, "bytes" | "index"> {
  readonly id: string
  readonly revision: string
  readonly until: number
}

interface Job {
  /** Of its first appearance: what lists are ordered by. */
  readonly sequence: number
  /** Publish keys, remembered for as long as the job is known. */
  readonly keys: Set<string>
  /** In queues, oldest first; hardly ever more than one. */
  readonly tasks: Set<Task>
  stored?: Stored | undefined
}

interface Limits {
  readonly maxTask: number
  readonly maxRecord: number
}

export class Board {
  readonly #limits: Limits
  readonly #lanes = new Map<string, Lane>()
  /** Tasks in queues by sequence. */
  readonly #tasks = new Map<number, Task>()
  readonly #jobs = new Map<string, Job>()
  /** Records that are not kept for ever, by when they go. */
  readonly #ends = new Sorted<Stored>((a, b) => a.until - b.until || Number(a.revision) - Number(b.revision))
  readonly #listeners = new Set<{ readonly interest: Interest; readonly listener: (news: News) => void }>()
  /** Queue that was served last, where queues take turns. */
  #served = ""
  #counter = 0

  constructor(limits: Limits) {
    this.#limits = limits
  }

  publish(postings: ReadonlyArray<Posting>): ReadonlyArray<Receipt> {
    return postings.map((posting) => {
      try {
        this.#check(posting)
        return { status: this.#post(posting) }
      } catch (error) {
        return { status: "failed", error: asTransportError(error) }
      }
    })
  }

  /** Puts bytes where a task should be: for tests. */
  inject(queue: string, frame: Uint8Array): void {
    const index: Index = { state: "queued", queue, task: "", at: Date.now() }
    this.#enqueue({ id: "", key: "", queue, level: 4, index }, frame)
  }

  take({ queues, max, rotate }: TakeRequest, lease: number): Taken {
    const now = Date.now()
    const first = rotate ? queues.indexOf(this.#served) + 1 : 0
    const lanes = [...queues.slice(first), ...queues.slice(0, first)].flatMap((name) => this.#lanes.get(name) ?? [])
    for (const lane of lanes) lane.advance(now)
    const deliveries: Array<Delivery> = []
    for (let before = -1; deliveries.length > before && deliveries.length < max; ) {
      before = deliveries.length
      for (const lane of lanes) {
        const turn = rotate ? 1 : max
        for (let count = 0; count < turn && deliveries.length < max; count++) {
          const task = lane.ready.first
          if (task === undefined) break
          lane.move(task, "held", now + lease)
          deliveries.push(deliver(task))
          this.#served = lane.name
        }
      }
    }
    const next = Math.min(...lanes.map(({ later }) => later.first?.until ?? Number.POSITIVE_INFINITY))
    return deliveries.length > 0 || next === Number.POSITIVE_INFINITY
      ? { deliveries }
      : { deliveries, next: next - now }
  }

  extend(token: string, lease: number): boolean {
    const task = this.#taskOf(token)
    if (task === undefined || task.until <= Date.now()) return false
    this.#lane(task.posting.queue).move(task, "held", Date.now() + lease)
    return true
  }

  read(id: string, what: "record" | "all"): Known | undefined {
    this.#sweep()
    const { stored, tasks } = this.#jobs.get(id) ?? {}
    const task = what === "all" && tasks !== undefined ? [...tasks].at(-1) : undefined
    if (stored === undefined && task === undefined) return undefined
    return {
      revision: stored?.revision ?? "",
      ...(stored === undefined ? {} : { record: stored.bytes.slice() }),
      ...(task === undefined ? {} : { task: queuedTask(task) }),
    }
  }

  commit({ id, record, post = [], task }: Commit): Committed {
    try {
      // What can fail is tried first: a commit happens as a whole or not at all.
      for (const posting of post) this.#check(posting)
      if (record !== undefined && record.bytes.length > this.#limits.maxRecord) {
        throw new TransportError("too-large", `the record of ${id} is over ${this.#limits.maxRecord} bytes`)
      }
    } catch (error) {
      return { status: "failed", error: asTransportError(error) }
    }
    this.#sweep()
    if (record !== undefined && (this.#jobs.get(id)?.stored?.revision ?? "") !== record.expect) {
      return { status: "conflict" }
    }
    const revision = record === undefined ? "" : this.#store(id, record)
    // Before the postings, which may be of the same job.
    const isDone = task === undefined || this.#end(id, task)
    for (const posting of post) this.#post(posting)
    return isDone ? { status: "committed", revision } : { status: "committed", revision, gone: true }
  }

  query({ limit, after, ...query }: Query): FoundJobs {
    this.#sweep()
    const below = after === undefined ? Number.POSITIVE_INFINITY : cursorOf(after)
    const found: Array<FoundJobs["jobs"][number] & { readonly sequence: number }> = []
    for (const [id, job] of [...this.#jobs].reverse()) {
      const index = job.stored?.index ?? [...job.tasks].at(-1)?.posting.index
      if (job.sequence >= below || index === undefined || !matches(index, query)) continue
      const known = this.read(id, "all")
      if (known !== undefined) found.push({ ...known, id, sequence: job.sequence })
      if (found.length > limit) break
    }
    const jobs = found.slice(0, limit)
    return found.length > limit ? { jobs, next: String(jobs.at(-1)?.sequence) } : { jobs }
  }

  queues(): ReadonlyArray<QueueDepth> {
    const now = Date.now()
    return [...this.#lanes.values()].map((lane) => {
      lane.advance(now)
      const held = [...lane.later].filter(({ place }) => place === "held").length
      const oldest = [...lane.ready].reduce((least, { at }) => Math.min(least, at), Number.POSITIVE_INFINITY)
      const counts = { queue: lane.name, ready: lane.ready.size, scheduled: lane.later.size - held, held }
      return oldest === Number.POSITIVE_INFINITY ? counts : { ...counts, oldest }
    })
  }

  waiting(what: Parameters<QueueBrowser["waiting"]>[0], max: number): ReadonlyArray<string> {
    const now = Date.now()
    for (const lane of this.#lanes.values()) lane.advance(now)
    const tasks = "queue" in what ? this.#lanes.get(what.queue)?.waiting() : this.#expired(what.expiredBy)
    const ids: Array<string> = []
    for (const { posting } of tasks ?? []) {
      if (ids.length >= max) break
      if (posting.id !== "") ids.push(posting.id)
    }
    return ids
  }

  /** Returns how to stop. */
  listen(interest: Interest, listener: (news: News) => void): () => void {
    const entry = { interest, listener }
    this.#listeners.add(entry)
    return () => this.#listeners.delete(entry)
  }

  #expired(by: number): ReadonlyArray<Task> {
    const endOf = ({ posting }: Task) => posting.expires ?? Number.POSITIVE_INFINITY
    return [...this.#tasks.values()]
      .filter((task) => task.place !== "held" && endOf(task) <= by)
      .sort((a, b) => endOf(a) - endOf(b))
  }

  #check({ id, level, frame }: Posting): void {
    if (!(level >= 0 && level <= FRONT_LEVEL)) throw new TransportError("invalid", `${id}: ${level} is no level`)
    if (Buffer.byteLength(id) > 255 || id === "") throw new TransportError("invalid", "an id has 1 to 255 bytes")
    if (frame.length <= this.#limits.maxTask) return
    throw new TransportError("too-large", `${id}: ${frame.length} bytes, ${this.#limits.maxTask} are allowed`)
  }

  #job(id: string): Job {
    let job = this.#jobs.get(id)
    if (job === undefined) {
      job = { sequence: ++this.#counter, keys: new Set(), tasks: new Set() }
      this.#jobs.set(id, job)
    }
    return job
  }

  #lane(name: string): Lane {
    let lane = this.#lanes.get(name)
    if (lane === undefined) {
      lane = new Lane(name)
      this.#lanes.set(name, lane)
    }
    return lane
  }

  #store(id: string, { bytes, index, keep = Number.POSITIVE_INFINITY }: CommitRecord): string {
    const job = this.#job(id)
    if (job.stored !== undefined) this.#ends.remove(job.stored)
    const revision = String(++this.#counter)
    job.stored = { id, bytes: bytes.slice(), index, revision, until: Date.now() + keep }
    if (keep < Number.POSITIVE_INFINITY) this.#ends.add(job.stored)
    this.#tell({ kind: "job", id, record: job.stored.bytes.slice() })
    return revision
  }

  #post({ message: _message, frame, ...posting }: Posting): "stored" | "duplicate" {
    const job = this.#job(posting.id)
    if (job.keys.has(posting.key)) return "duplicate"
    job.keys.add(posting.key)
    job.tasks.add(this.#enqueue(posting, frame.slice()))
    this.#tell({ kind: "job", id: posting.id })
    return "stored"
  }

  #enqueue(posting: Task["posting"], frame: Uint8Array): Task {
    const at = Date.now()
    const sequence = ++this.#counter
    const task: Task = { posting, frame, sequence, at, place: "gone", token: "", deliveries: 0, until: 0 }
    this.#tasks.set(sequence, task)
    const { due = 0, queue } = posting
    this.#lane(queue).move(task, due > at ? "scheduled" : "ready", due)
    this.#tell({ kind: "queue", queue })
    return task
  }

  /** The task that a delivery still has. */
  #taskOf(token: string): Task | undefined {
    const task = this.#tasks.get(Number.parseInt(token, 10))
    return task?.token === token ? task : undefined
  }

  /** Whether the task was there. */
  #end(id: string, how: TaskEnd): boolean {
    if (how.kind === "withdraw") {
      for (const task of this.#jobs.get(id)?.tasks ?? []) this.#remove(task)
      return true
    }
    const task = this.#taskOf(how.token)
    if (task === undefined) return false
    if (how.kind === "ack") this.#remove(task)
    else {
      const place = how.delay > 0 ? "scheduled" : "ready"
      task.token = ""
      this.#lane(task.posting.queue).move(task, place, Date.now() + how.delay)
      this.#tell({ kind: "queue", queue: task.posting.queue })
    }
    return true
  }

  #remove(task: Task): void {
    const { queue, id } = task.posting
    const lane = this.#lane(queue)
    lane.move(task, "gone")
    if (lane.isEmpty) this.#lanes.delete(queue)
    this.#tasks.delete(task.sequence)
    this.#jobs.get(id)?.tasks.delete(task)
    this.#forget(id)
  }

  /** Removes records that were kept for long enough. */
  #sweep(): void {
    const now = Date.now()
    for (let stored = this.#ends.first; stored !== undefined && stored.until <= now; stored = this.#ends.first) {
      this.#ends.remove(stored)
      const job = this.#jobs.get(stored.id)
      if (job !== undefined) job.stored = undefined
      this.#forget(stored.id)
    }
  }

  #forget(id: string): void {
    const job = this.#jobs.get(id)
    if (job?.stored === undefined && job?.tasks.size === 0) this.#jobs.delete(id)
  }

  #tell(news: News): void {
    for (const { interest, listener } of this.#listeners) {
      const isWanted =
        (news.kind === "queue" && interest.kind === "queues" && interest.queues.includes(news.queue)) ||
        (news.kind === "job" && (interest.kind === "jobs" || (interest.kind === "job" && interest.id === news.id)))
      if (isWanted) queueMicrotask(() => listener(news))
    }
  }
}

const deliver = (task: Task): Delivery => {
  const { posting, sequence, frame } = task
  const deliveries = ++task.deliveries
  task.token = `${sequence}.${deliveries}`
  return {
    token: task.token,
    queue: posting.queue,
    level: posting.level,
    sequence,
    first: deliveries === 1,
    fence: String(deliveries).padStart(9, "0"),
    deliveries,
    content: frame.slice(),
  }
}

const queuedTask = ({ posting, place, until, at, frame }: Task): QueuedTask => {
  const { queue, due, expires } = posting
  return {
    queue,
    at,
    held: place === "held" && until > Date.now(),
    content: frame.slice(),
    ...(due === undefined ? {} : { due }),
    ...(expires === undefined ? {} : { expires }),
  }
}

const waits = (state: Index["state"]): boolean => state === "queued" || state === "scheduled"

/** What was scheduled may be due by now. */
const isIn = ({ state }: Index, states: ReadonlyArray<Index["state"]>): boolean =>
  states.includes(state) || (waits(state) && states.some(waits))

const matches = (index: Index, { states, dead, task, since = 0, until, ...query }: Partial<Query>): boolean =>
  !index.hidden &&
  (task === undefined || index.task === task || `${index.task}.${index.method ?? ""}` === task) &&
  (states === undefined || isIn(index, states)) &&
  (!dead || index.dead === true) &&
  index.at >= since &&
  index.at < (until ?? Number.POSITIVE_INFINITY) &&
  FIELDS.every((field) => query[field] === undefined || query[field] === index[field])

const FIELDS = ["queue", "root", "parent", "group"] as const

const cursorOf = (text: string): number => {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new TransportError("invalid", `not a cursor of this transport: ${JSON.stringify(text.slice(0, 40))}`)
}

const asTransportError = (error: unknown): TransportError =>
  error instanceof TransportError ? error : new TransportError("internal", String(error), { cause: error })
