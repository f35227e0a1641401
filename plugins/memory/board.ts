/**
 * One board in memory: who gets which task, and what becomes of it. Everything happens between two turns of the event
 * loop, so that each call is one transaction. No timer runs but the one that wakes waiting pulls.
 */

import { decodeEnvelope, encodeEnvelope } from "../../runtime/protocol/envelope.ts"
import { FRONT_LEVEL, publishKey } from "../../runtime/protocol/message.ts"
import { claimed, isClaimOf, recordOfPosting, unclaimed } from "../../runtime/protocol/record.ts"
import {
  type Capabilities,
  type Change,
  type Changed,
  type Claim,
  type Claimed,
  type Delivery,
  type Posting,
  type PullRequest,
  type QueueStats,
  type Receipt,
  type Report,
  type Settled,
  type Settlement,
  TransportError,
} from "../../runtime/transport/mod.ts"
import { isOver, judge, read } from "./job.ts"
import { Jobs } from "./jobs.ts"
import { isHeld, Lane } from "./lane.ts"
import type { Job, Task } from "./state.ts"

/** A pull that waits for its first task. */
export interface Waiter {
  readonly request: PullRequest
  readonly lease: number
  readonly resolve: (deliveries: ReadonlyArray<Delivery>) => void
}

/** Timers cannot wait for longer than 2³¹ − 1 ms. */
const LONGEST_TIMER = 3_600_000

export class Board {
  readonly #capabilities: Capabilities
  readonly #jobs: Jobs
  readonly #lanes = new Map<string, Lane>()
  /** Tasks in queues by sequence. */
  readonly #tasks = new Map<number, Task>()
  readonly #waiters = new Set<Waiter>()
  /** Queue that was served last, where queues take turns. */
  #served = ""
  #counter = 0
  #alarm: ReturnType<typeof setTimeout> | undefined

  constructor(capabilities: Capabilities) {
    this.#capabilities = capabilities
    this.#jobs = new Jobs(capabilities.maxRecord)
  }

  /** The records, up to date. */
  get jobs(): Jobs {
    this.#jobs.bury(Date.now())
    return this.#jobs
  }

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

  /** Puts bytes where a task should be: for tests. */
  inject(queue: string, frame: Uint8Array): void {
    this.#enqueue({ id: "", run: 1, retries: 0, queue, level: 4 }, frame.slice(), undefined)
    this.#serve()
  }

  take({ queues, max, rotate }: PullRequest, lease: number): ReadonlyArray<Delivery> {
    const now = Date.now()
    const first = rotate ? queues.indexOf(this.#served) + 1 : 0
    const order = [...queues.slice(first), ...queues.slice(0, first)]
    const lanes = order.flatMap((name) => this.#lanes.get(name) ?? [])
    for (const lane of lanes) lane.advance(now)
    const deliveries: Array<Delivery> = []
    const turn = rotate ? 1 : max
    for (let before = -1; deliveries.length > before; ) {
      before = deliveries.length
      for (const lane of lanes) {
        for (let count = 0; count < turn && deliveries.length < max; count++) {
          const task = lane.take(now, lease)
          if (task === undefined) break
          deliveries.push(this.#deliver(task))
          this.#served = lane.name
        }
      }
    }
    return deliveries
  }

  /** Registers a pull that found nothing; {@link take} has been tried. */
  wait(waiter: Waiter): void {
    this.#waiters.add(waiter)
    this.#arm()
  }

  leave(waiter: Waiter): void {
    if (this.#waiters.delete(waiter)) this.#arm()
  }

  claim({ token, id, worker, at, posting }: Claim): Claimed {
    const fence = fenceOf(token)
    const stored = this.jobs.get(id)?.stored
    if (stored !== undefined && isOver(stored, posting)) return { status: "finished", record: read(stored) }
    if (this.#held(token) === undefined || (stored !== undefined && stored.fence > fence)) {
      return { status: "superseded" }
    }
    try {
      const before = stored && read(stored)
      if (before !== undefined && isClaimOf(before, fence)) return { status: "claimed", record: unclaimed(before) }
      const base = before ?? derive(posting, at)
      this.#jobs.keep(claimed(base, { fence, worker, at }))
      return { status: "claimed", ...(before ? { record: before } : {}) }
    } catch (error) {
      return { status: "failed", error: asTransportError(error) }
    }
  }

  report({ token, record }: Report): void {
    const task = this.#held(token)
    if (task?.job === undefined || judge(task.job.stored, record, fenceOf(token), task) !== "write") return
    this.#jobs.report(task.job, record)
  }

  settle({ token, record, followUps = [], then }: Settlement): Settled {
    const fence = fenceOf(token)
    const task = this.#taskOf(token)
    try {
      // What can fail is tried first: a settlement happens as a whole or not at all.
      const frames = followUps.map((posting) => this.#encode(posting))
      if (record !== undefined) {
        const verdict = judge(this.jobs.get(record.id)?.stored, record, fence, task)
        if (verdict === "superseded") return { status: "superseded" }
        if (verdict === "write") this.#jobs.keep({ ...record, fence })
      } else if (task !== undefined && task.fence !== fence) return { status: "superseded" }
      this.#postAll(followUps, frames)
    } catch (error) {
      return { status: "failed", error: asTransportError(error) }
    }
    if (task !== undefined) {
      const lane = this.#lane(task.posting.queue)
      if (then.kind === "ack") this.#remove(task)
      else if (then.delay > 0) lane.schedule(task, Date.now() + then.delay)
      else lane.ready(task)
    }
    this.#serve()
    return { status: task === undefined ? "gone" : "settled" }
  }

  extend(token: string): boolean {
    const task = this.#held(token)
    if (task === undefined) return false
    task.until = Date.now() + task.lease
    return true
  }

  change({ id, expect, record, withdraw, post = [] }: Change): Changed {
    try {
      const job = this.jobs.get(id)
      if ((job?.stored?.revision ?? "") !== expect) return { status: "conflict" }
      const frames = post.map((posting) => this.#encode(posting))
      this.#jobs.keep(record)
      if (withdraw) for (const task of job?.tasks ?? []) this.#remove(task)
      this.#postAll(post, frames)
    } catch (error) {
      return { status: "failed", error: asTransportError(error) }
    }
    this.#serve()
    return { status: "changed" }
  }

  stats(): ReadonlyArray<QueueStats> {
    const now = Date.now()
    return [...this.#lanes.values()].map((lane) => {
      lane.advance(now)
      const { ready, scheduled, held } = lane.count
      const oldest = lane.oldest()
      return { queue: lane.name, ready, scheduled, inFlight: held, ...(oldest === undefined ? {} : { oldest }) }
    })
  }

  overdue(now: number, max: number): ReadonlyArray<string> {
    const late = [...this.#tasks.values()].filter(
      (task) => task.job !== undefined && !isHeld(task, now) && (task.posting.expires ?? Infinity) <= now,
    )
    late.sort((a, b) => (a.posting.expires ?? 0) - (b.posting.expires ?? 0))
    return late.slice(0, max).map((task) => task.posting.id)
  }

  waiting(queue: string, max: number): ReadonlyArray<string> {
    const ids: Array<string> = []
    const lane = this.#lanes.get(queue)
    lane?.advance(Date.now())
    for (const task of lane?.waiting() ?? []) {
      if (ids.length >= max) break
      if (task.job !== undefined) ids.push(task.posting.id)
    }
    return ids
  }

  #lane(name: string): Lane {
    let lane = this.#lanes.get(name)
    if (lane === undefined) {
      lane = new Lane(name)
      this.#lanes.set(name, lane)
    }
    return lane
  }

  /** A posting's message as bytes. Fails with why it cannot be stored. */
  #encode({ id, level, key, message }: Posting): Uint8Array {
    if (key !== undefined) throw new TransportError("unsupported", `${id}: this transport keeps no order by key`)
    if (!(level >= 0 && level <= FRONT_LEVEL)) throw new TransportError("invalid", `${id}: ${level} is no level`)
    const frame = encodeEnvelope(message)
    if (frame._tag === "Failure") throw new TransportError("invalid", `${id}: ${frame.failure.message}`)
    const { maxTask } = this.#capabilities
    if (frame.success.length <= maxTask) return frame.success
    throw new TransportError("too-large", `${id}: ${frame.success.length} bytes, ${maxTask} are allowed`)
  }

  #post(posting: Posting, frame: Uint8Array): "stored" | "duplicate" {
    const job = this.jobs.of(posting.id)
    const key = publishKey(posting)
    if (job.keys.includes(key)) return "duplicate"
    job.keys.push(key)
    const { message, ...address } = posting
    this.#enqueue(address, frame, job)
    if (this.#jobs.watched && job.stored === undefined) this.#jobs.tell(derive(posting, Date.now()))
    return "stored"
  }

  #postAll(postings: ReadonlyArray<Posting>, frames: ReadonlyArray<Uint8Array>): void {
    for (const [at, posting] of postings.entries()) this.#post(posting, frames[at] ?? this.#encode(posting))
  }

  #enqueue(posting: Omit<Posting, "message">, frame: Uint8Array, job: Job | undefined): void {
    const storedAt = Date.now()
    const sequence = ++this.#counter
    const task: Task = {
      posting,
      frame,
      sequence,
      storedAt,
      job,
      place: "new",
      deliveries: 0,
      fence: "",
      lease: 0,
      until: 0,
      alarm: undefined,
    }
    this.#tasks.set(sequence, task)
    if (job !== undefined) job.tasks = [...job.tasks, task]
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
    task.job.tasks = task.job.tasks.filter((each) => each !== task)
    this.#jobs.forget(task.job)
  }

  #deliver(task: Task): Delivery {
    const { job, posting, sequence, deliveries } = task
    const fence = (++this.#counter).toString(36).padStart(11, "0")
    task.fence = fence
    const fresh = job !== undefined && !job.delivered && job.stored === undefined
    if (job !== undefined) {
      job.delivered = true
      job.reported = undefined
    }
    const message = decodeEnvelope(task.frame.slice())
    return {
      token: `${sequence}.${fence}`,
      fence,
      queue: posting.queue,
      level: posting.level,
      sequence,
      fresh,
      deliveries,
      message,
    }
  }

  #taskOf(token: string): Task | undefined {
    return this.#tasks.get(Number(token.slice(0, token.indexOf("."))))
  }

  /** The task that a token still holds. */
  #held(token: string): Task | undefined {
    const task = this.#taskOf(token)
    return task !== undefined && task.fence === fenceOf(token) && isHeld(task, Date.now()) ? task : undefined
  }

  /** Gives waiting pulls what has become ready, first come, first served. */
  #serve(): void {
    if (this.#waiters.size === 0) return
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
    let next = Infinity
    for (const { request } of this.#waiters) {
      for (const name of request.queues) next = Math.min(next, this.#lanes.get(name)?.next() ?? Infinity)
    }
    if (next === Infinity) return
    this.#alarm = setTimeout(() => this.#serve(), Math.min(Math.max(next - Date.now(), 1), LONGEST_TIMER))
    // Who waits keeps the process alive, not the board.
    this.#alarm.unref?.()
  }
}

const fenceOf = (token: string): string => token.slice(token.indexOf(".") + 1)

const derive = (posting: Posting, now: number): ReturnType<typeof read> => {
  const derived = recordOfPosting(posting, now)
  if (derived._tag === "Success") return derived.success
  throw new TransportError("invalid", `${posting.id}: ${derived.failure.message}`)
}

const asTransportError = (error: unknown): TransportError =>
  error instanceof TransportError ? error : new TransportError("internal", String(error), { cause: error })
