/**
 * One board in memory: queues, jobs and who waits for what. Everything happens between two turns of the event loop, so
 * that each call is one transaction. No timer runs but the one that wakes waiting pulls.
 */
import { decodeEnvelope, encodeEnvelope } from "../../runtime/protocol/envelope.ts"
import { isUndecodable, publishKey } from "../../runtime/protocol/message.ts"
import { recordOfPosting, step } from "../../runtime/protocol/record.ts"
import { isTerminal } from "../../runtime/protocol/state.ts"
import {
  type Capabilities,
  type Change,
  type Changed,
  type Claim,
  type Claimed,
  type Delivery,
  type Found,
  type JobRecord,
  type Posting,
  type PullRequest,
  type QueueStats,
  type Receipt,
  type RecordPage,
  type RecordQuery,
  type Report,
  type Settled,
  type Settlement,
  TOMBSTONE_MS,
  TransportError,
} from "../../runtime/transport.ts"
import { Heap } from "./heap.ts"
import { isAhead, type Job, judge, knows, read, type Stored, store, tombstoneOf } from "./job.ts"
import { Lane, type Task } from "./lane.ts"

/** A pull that waits for its first task. */
export interface Waiter {
  readonly request: PullRequest
  readonly lease: number
  readonly resolve: (deliveries: ReadonlyArray<Delivery>) => void
}

/** The longest that a timer can wait is 2³¹ − 1 ms. */
const LONGEST_TIMER = 3_600_000

export class Board {
  readonly #capabilities: Capabilities
  readonly #lanes = new Map<string, Lane>()
  readonly #jobs = new Map<string, Job>()
  /** Tasks in queues by sequence. */
  readonly #tasks = new Map<number, Task>()
  readonly #waiters = new Set<Waiter>()
  readonly #watchers = new Set<{ readonly id: string | undefined; readonly listener: (record: JobRecord) => void }>()
  /** Records that will become tombstones, and tombstones that will go. */
  readonly #ends = new Heap<{ readonly at: number; readonly job: Job; readonly stored: Stored }>(
    (a, b) => a.at < b.at,
    (end) => end.job.stored === end.stored,
  )
  #counter = 0
  #alarm: ReturnType<typeof setTimeout> | undefined

  constructor(capabilities: Capabilities) {
    this.#capabilities = capabilities
  }

  // ── Queue ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  publish(postings: ReadonlyArray<Posting>): ReadonlyArray<Receipt> {
    const receipts = postings.map((posting): Receipt => {
      try {
        return { status: this.#post(posting, this.#encode(posting)) }
      } catch (error) {
        return { status: "failed", error: asTransportError(error) }
      }
    })
    this.#serve()
    return receipts
  }

  /** Puts bytes where a task should be. */
  inject(queue: string, frame: Uint8Array): void {
    this.#enqueue({ id: "", run: 1, retries: 0, queue, level: 4 }, frame.slice(), undefined)
    this.#serve()
  }

  take(request: PullRequest, lease: number): ReadonlyArray<Delivery> {
    const now = this.#now()
    const lanes = request.queues.flatMap((name) => this.#lanes.get(name) ?? [])
    for (const lane of lanes) lane.advance(now)
    const taken: Array<Task> = []
    const turn = request.rotate ? 1 : request.max
    for (let before = -1; taken.length > before; ) {
      before = taken.length
      for (const lane of lanes) {
        for (let count = 0; count < turn && taken.length < request.max; count++) {
          const task = lane.take(now, lease)
          if (task === undefined) break
          taken.push(task)
        }
      }
    }
    return taken.map((task) => this.#deliver(task))
  }

  /** Registers a pull that found nothing; {@link take} has been tried. */
  wait(waiter: Waiter): void {
    this.#waiters.add(waiter)
    this.#arm()
  }

  leave(waiter: Waiter): void {
    this.#waiters.delete(waiter)
    this.#arm()
  }

  claim(claim: Claim): Claimed {
    const task = this.#held(claim.token)
    const { head } = this.#jobs.get(claim.id)?.stored ?? {}
    const fence = fenceOf(claim.token)
    if (head !== undefined) {
      const over = head.run > claim.run || (head.run === claim.run && (isTerminal(head.state) || head.tombstone))
      const wentOn = head.run === claim.run && head.successor !== undefined && isAhead(head.successor, claim.posting)
      if ((over || wentOn) && head.fence <= fence) return { status: "finished", record: this.#read(claim.id) }
      if (head.fence > fence) return { status: "superseded" }
    }
    if (task === undefined) return { status: "superseded" }
    try {
      const before = head === undefined ? undefined : this.#read(claim.id)
      const base = before ?? derive(claim.posting, claim.at)
      const started = step(base, { at: claim.at, state: "started", worker: claim.worker })
      this.#store({ ...started, fence, worker: claim.worker, claims: (base.claims ?? 0) + 1 })
      return { status: "claimed", ...(before ? { record: before } : {}) }
    } catch (error) {
      return { status: "failed", error: asTransportError(error) }
    }
  }

  report({ token, record }: Report): void {
    const task = this.#held(token)
    const job = task?.job
    if (job === undefined || judge(job, record, fenceOf(token), task) !== "write") return
    job.reported = store({ ...record, fence: fenceOf(token) }, "", this.#capabilities.maxRecord)
    this.#tell(record)
  }

  settle({ token, record, followUps = [], then }: Settlement): Settled {
    const now = this.#now()
    const fence = fenceOf(token)
    const task = this.#tasks.get(Number(token.slice(0, token.indexOf("."))))
    try {
      // What can fail is tried first: a settlement happens as a whole or not at all.
      const frames = followUps.map((posting) => this.#encode(posting))
      if (record !== undefined) {
        const verdict = judge(this.#jobs.get(record.id), record, fence, task)
        if (verdict === "superseded") return { status: "superseded" }
        if (verdict === "write") this.#store({ ...record, fence })
      } else if (task !== undefined && task.fence !== fence) {
        return { status: "superseded" }
      }
      followUps.forEach((posting, at) => {
        this.#post(posting, frames[at] ?? this.#encode(posting))
      })
    } catch (error) {
      return { status: "failed", error: asTransportError(error) }
    }
    if (task === undefined) {
      this.#serve()
      return { status: "gone" }
    }
    if (then.kind === "ack") this.#remove(task)
    else if (then.delay > 0) this.#lane(task.posting.queue).schedule(task, now + then.delay)
    else this.#lane(task.posting.queue).ready(task)
    this.#serve()
    return { status: "settled" }
  }

  extend(token: string): boolean {
    const task = this.#held(token)
    if (task === undefined) return false
    task.until = Date.now() + task.lease
    return true
  }

  stats(): ReadonlyArray<QueueStats> {
    const now = this.#now()
    return [...this.#lanes.values()].map((lane) => {
      lane.advance(now)
      const { ready, scheduled, held } = lane.count
      const oldest = lane.oldest()
      return { queue: lane.name, ready, scheduled, inFlight: held, ...(oldest === undefined ? {} : { oldest }) }
    })
  }

  overdue(now: number, max: number): ReadonlyArray<string> {
    const late = [...this.#tasks.values()].filter(
      (task) => task.job !== undefined && isWaiting(task, now) && (task.posting.expires ?? Infinity) <= now,
    )
    late.sort((a, b) => (a.posting.expires ?? 0) - (b.posting.expires ?? 0))
    return late.slice(0, max).map((task) => task.posting.id)
  }

  waiting(queue: string, max: number): ReadonlyArray<string> {
    const ids: Array<string> = []
    const lane = this.#lanes.get(queue)
    lane?.advance(this.#now())
    for (const task of lane?.waiting() ?? []) {
      if (ids.length >= max) break
      if (task.job !== undefined) ids.push(task.posting.id)
    }
    return ids
  }

  // ── Records ───────────────────────────────────────────────────────────────────────────────────────────────────────

  find(id: string): Found | undefined {
    const now = this.#now()
    const job = this.#jobs.get(id)
    const record = job && this.#view(job, now)
    return record && { record, revision: job.stored?.revision ?? "" }
  }

  change({ id, expect, record, withdraw, post = [] }: Change): Changed {
    this.#now()
    try {
      const job = this.#jobs.get(id)
      if ((job?.stored?.revision ?? "") !== expect) return { status: "conflict" }
      const frames = post.map((posting) => this.#encode(posting))
      const tasks = withdraw ? [...(job?.tasks ?? [])] : []
      this.#store(record)
      for (const task of tasks) this.#remove(task)
      post.forEach((posting, at) => {
        this.#post(posting, frames[at] ?? this.#encode(posting))
      })
    } catch (error) {
      return { status: "failed", error: asTransportError(error) }
    }
    this.#serve()
    return { status: "changed" }
  }

  query(query: RecordQuery): RecordPage {
    const now = this.#now()
    if (!(query.limit >= 1 && query.limit <= 1_000)) throw new TransportError("invalid", "limit must be 1 to 1,000")
    const after = query.after === undefined ? Infinity : cursorOf(query.after)
    const records: Array<JobRecord> = []
    let last = 0
    for (const job of [...this.#jobs.values()].reverse()) {
      if (job.sequence >= after || job.stored?.head.tombstone) continue
      const record = this.#matching(job, query, now)
      if (record === undefined) continue
      if (records.length === query.limit) return { records, next: String(last) }
      records.push(record)
      last = job.sequence
    }
    return { records }
  }

  /** Returns how to stop. */
  watch(id: string | undefined, listener: (record: JobRecord) => void): () => void {
    const watcher = { id, listener }
    this.#watchers.add(watcher)
    return () => void this.#watchers.delete(watcher)
  }

  // ── Inside ────────────────────────────────────────────────────────────────────────────────────────────────────────

  #next(): number {
    return ++this.#counter
  }

  /** The time; buries on the way what was kept long enough. */
  #now(): number {
    const now = Date.now()
    for (let end = this.#ends.peek(); end !== undefined && end.at <= now; end = this.#ends.peek()) {
      this.#ends.pop()
      const { job, stored } = end
      if (!stored.head.tombstone) this.#store(tombstoneOf(stored))
      else {
        job.stored = undefined
        this.#forget(job)
      }
    }
    return now
  }

  #lane(name: string): Lane {
    let lane = this.#lanes.get(name)
    if (lane === undefined) this.#lanes.set(name, (lane = new Lane(name)))
    return lane
  }

  #job(id: string): Job {
    let job = this.#jobs.get(id)
    if (job === undefined) {
      const sequence = this.#next()
      job = { id, sequence, keys: [], tasks: new Set(), delivered: false, stored: undefined, reported: undefined }
      this.#jobs.set(id, job)
    }
    return job
  }

  #encode(posting: Posting): Uint8Array {
    const { id, level, key } = posting
    if (key !== undefined) throw new TransportError("unsupported", `${id}: this transport keeps no order by key`)
    if (!(level >= 0 && level <= 10)) throw new TransportError("invalid", `${id}: ${level} is no level`)
    const frame = encodeEnvelope(posting.message)
    if (frame._tag === "Failure") throw new TransportError("invalid", `${id}: ${frame.failure.message}`)
    const { maxTask } = this.#capabilities
    if (frame.success.length <= maxTask) return frame.success
    throw new TransportError("too-large", `${id}: ${frame.success.length} bytes, ${maxTask} are allowed`)
  }

  #post(posting: Posting, frame: Uint8Array): "stored" | "duplicate" {
    const job = this.#job(posting.id)
    if (knows(job, posting)) return "duplicate"
    job.keys.push(publishKey(posting))
    const { message, ...address } = posting
    this.#enqueue(address, frame, job)
    if (this.#watchers.size > 0 && job.stored === undefined) this.#tell(derive(posting, Date.now()))
    return "stored"
  }

  #enqueue(posting: Omit<Posting, "message">, frame: Uint8Array, job: Job | undefined): void {
    const storedAt = Date.now()
    const task: Task = {
      posting,
      frame,
      sequence: this.#next(),
      storedAt,
      job,
      place: "new",
      deliveries: 0,
      fence: "",
      lease: 0,
      until: 0,
      alarm: undefined,
    }
    this.#tasks.set(task.sequence, task)
    job?.tasks.add(task)
    const lane = this.#lane(posting.queue)
    if (posting.due !== undefined && posting.due > storedAt) lane.schedule(task, posting.due)
    else lane.ready(task)
  }

  #remove(task: Task): void {
    const lane = this.#lane(task.posting.queue)
    lane.remove(task)
    if (lane.empty) this.#lanes.delete(lane.name)
    this.#tasks.delete(task.sequence)
    if (task.job === undefined) return
    task.job.tasks.delete(task)
    this.#forget(task.job)
  }

  /** Nothing is kept about a job that has neither a task nor a record. */
  #forget(job: Job): void {
    if (job.tasks.size === 0 && job.stored === undefined) this.#jobs.delete(job.id)
  }

  #deliver(task: Task): Delivery {
    const { job, posting } = task
    task.fence = this.#next().toString(36).padStart(11, "0")
    const fresh = job !== undefined && !job.delivered && job.stored === undefined
    if (job !== undefined) job.delivered = true
    return {
      token: `${task.sequence}.${task.fence}`,
      fence: task.fence,
      queue: posting.queue,
      level: posting.level,
      sequence: task.sequence,
      fresh,
      deliveries: task.deliveries,
      message: decodeEnvelope(task.frame.slice()),
    }
  }

  /** The task that a token still holds. */
  #held(token: string): Task | undefined {
    const task = this.#tasks.get(Number(token.slice(0, token.indexOf("."))))
    const ours = task?.place === "held" && task.fence === fenceOf(token) && task.until > Date.now()
    return ours ? task : undefined
  }

  /** Gives waiting pulls what has become ready, first come, first served. */
  #serve(): void {
    for (const waiter of this.#waiters) {
      const deliveries = this.take(waiter.request, waiter.lease)
      if (deliveries.length === 0) continue
      this.#waiters.delete(waiter)
      waiter.resolve(deliveries)
    }
    this.#arm()
  }

  /** Sets the one timer to when there may be something for those who wait. */
  #arm(): void {
    clearTimeout(this.#alarm)
    this.#alarm = undefined
    let next = Infinity
    for (const { request } of this.#waiters) {
      for (const name of request.queues) next = Math.min(next, this.#lanes.get(name)?.next() ?? Infinity)
    }
    if (next === Infinity) return
    this.#alarm = setTimeout(() => this.#serve(), Math.min(Math.max(next - Date.now(), 1), LONGEST_TIMER))
    // Who waits keeps the process alive, not the board.
    this.#alarm.unref?.()
  }

  #store(record: JobRecord): void {
    const stored = store(record, String(this.#next()), this.#capabilities.maxRecord)
    const job = this.#job(record.id)
    job.stored = stored
    job.reported = undefined
    const { endedAt, keepMs, state, tombstone } = stored.head
    const ended = isTerminal(state) && endedAt !== undefined && keepMs !== undefined && keepMs >= 0
    if (tombstone) this.#ends.push({ at: Date.now() + TOMBSTONE_MS, job, stored })
    else if (ended) this.#ends.push({ at: endedAt + keepMs, job, stored })
    this.#tell(record)
  }

  #read(id: string): JobRecord {
    const stored = this.#jobs.get(id)?.stored
    if (stored === undefined) throw new TransportError("internal", `the record of ${id} is gone`)
    return read(stored)
  }

  /** A job as it is to be seen now. */
  #view(job: Job, now: number): JobRecord | undefined {
    const task = [...job.tasks].at(-1)
    if (task === undefined) return job.stored && read(job.stored)
    const message = decodeEnvelope(task.frame.slice())
    if (isUndecodable(message)) return job.stored && read(job.stored)
    const held = !isWaiting(task, now)
    const known = held ? (job.reported ?? job.stored) : job.stored
    if (known === undefined) {
      const derived = recordOfPosting({ ...task.posting, message }, now)
      return derived._tag === "Success" ? { ...derived.success, message } : undefined
    }
    const record = read(known)
    const waits = !held && (record.state === "scheduled" || record.state === "queued")
    return { ...record, ...(waits ? { state: waitingState(task, now) } : {}), message }
  }

  #matching(job: Job, query: RecordQuery, now: number): JobRecord | undefined {
    const record = this.#view(job, now)
    if (record === undefined || record.tombstone) return undefined
    const matches =
      (query.states === undefined || query.states.includes(record.state)) &&
      (query.task === undefined || query.task === record.task) &&
      (query.queue === undefined || query.queue === record.queue) &&
      (query.rootId === undefined || query.rootId === record.rootId) &&
      (query.parentId === undefined || query.parentId === record.parentId) &&
      (query.group === undefined || query.group === record.group) &&
      (!query.dead || record.dead !== undefined)
    return matches ? record : undefined
  }

  #tell(record: JobRecord): void {
    for (const { id, listener } of this.#watchers) {
      if (id === undefined || id === record.id) queueMicrotask(() => listener(structuredClone(record)))
    }
  }
}

const fenceOf = (token: string): string => token.slice(token.indexOf(".") + 1)

const isWaiting = (task: Task, now: number): boolean => task.place !== "held" || task.until <= now

const waitingState = (task: Task, now: number): "scheduled" | "queued" =>
  task.place === "scheduled" && (task.alarm?.at ?? 0) > now ? "scheduled" : "queued"

const derive = (posting: Posting, now: number): JobRecord => {
  const derived = recordOfPosting(posting, now)
  if (derived._tag === "Success") return derived.success
  throw new TransportError("invalid", `${posting.id}: ${derived.failure.message}`)
}

const cursorOf = (text: string): number => {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new TransportError("invalid", `not a cursor of this transport: ${JSON.stringify(text.slice(0, 40))}`)
}

const asTransportError = (error: unknown): TransportError =>
  error instanceof TransportError ? error : new TransportError("internal", String(error), { cause: error })
