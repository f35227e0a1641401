/** One board in memory: queues, records, and commits that change both. */
import type * as contract from "../../runtime/transport/driver.ts"
import type { Index, Known, QueuedTask } from "../../runtime/transport/known.ts"
import { TransportError } from "../../runtime/transport/mod.ts"
import {
  type FoundJob,
  type FoundJobs,
  matches,
  type Query,
  type QueueBrowser,
  type QueueDepth,
} from "../../runtime/transport/optional.ts"
import { Ending, Sorted } from "./sorted.ts"

/** One task in a queue. Its content stays bytes: nobody outside can change it. */
interface Task {
  readonly posting: Omit<contract.Posting, "message" | "frame">
  readonly frame: Uint8Array
  readonly sequence: number
  readonly at: number
  place: "ready" | "scheduled" | "held" | "gone"
  /** Where it is scheduled or held: when that ends. */
  until: number
  /** Of the last delivery; "" once it was given back. */
  token: string
  deliveries: number
}

interface Stored extends Pick<contract.CommitRecord, "bytes" | "index"> {
  readonly id: string
  /** Its revision, as a number. */
  readonly sequence: number
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

/** One queue: its tasks that can be taken, and those that cannot yet. */
class Lane {
  readonly ready = new Sorted<Task>((a, b) => b.posting.level - a.posting.level || a.sequence - b.sequence)
  /** Scheduled and held. */
  readonly later = new Ending<Task>()

  /** Puts a task into its place: ready, or later than that. */
  move(task: Task, place: Task["place"], until = 0): void {
    if (task.place === "ready") this.ready.remove(task)
    else this.later.remove(task)
    task.place = place
    task.until = until
    if (place === "ready") this.ready.add(task)
    else if (place !== "gone") this.later.add(task)
  }

  /** Makes ready what is due, and what was held for longer than its lease. */
  advance(now: number): this {
    for (const task of this.later.ended(now)) this.move(task, "ready")
    return this
  }
}

export class Board {
  readonly #tell: (news: contract.News) => void
  readonly #lanes = new Map<string, Lane>()
  /** Tasks in queues by sequence. */
  readonly #tasks = new Map<number, Task>()
  readonly #jobs = new Map<string, Job>()
  /** Records that are not kept for ever. */
  readonly #ends = new Ending<Stored>()
  #counter = 0

  constructor(tell: (news: contract.News) => void) {
    this.#tell = tell
  }

  post({ message: _message, frame, ...posting }: contract.Posting): "stored" | "duplicate" {
    const job = this.#job(posting.id)
    if (job.keys.has(posting.key)) return "duplicate"
    job.keys.add(posting.key)
    job.tasks.add(this.#enqueue(posting, frame.slice()))
    this.#tell({ kind: "job", id: posting.id })
    return "stored"
  }

  /** Puts bytes where a task should be: for tests. */
  inject(queue: string, frame: Uint8Array): void {
    const index: Index = { state: "queued", queue, task: "", at: Date.now() }
    this.#enqueue({ id: "", key: "", queue, level: 4, index }, frame)
  }

  /** The queues are in the order of their turns. */
  take({ queues, max, rotate }: contract.TakeRequest, lease: number): contract.Taken {
    const now = Date.now()
    const lanes = queues.flatMap((name) => this.#lanes.get(name)?.advance(now) ?? [])
    const deliveries: Array<contract.Delivery> = []
    for (let before = -1; deliveries.length > before && deliveries.length < max; ) {
      before = deliveries.length
      for (const lane of lanes) {
        const turn = Math.min(max, deliveries.length + (rotate ? 1 : max))
        for (let task = lane.ready.first; task !== undefined && deliveries.length < turn; task = lane.ready.first) {
          lane.move(task, "held", now + lease)
          deliveries.push(deliver(task))
        }
      }
    }
    const next = Math.min(...lanes.map(({ later }) => later.first?.until ?? Number.POSITIVE_INFINITY)) - now
    return deliveries.length > 0 || next === Number.POSITIVE_INFINITY ? { deliveries } : { deliveries, next }
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
      revision: stored === undefined ? "" : String(stored.sequence),
      ...(stored === undefined ? {} : { record: stored.bytes.slice() }),
      ...(task === undefined ? {} : { task: queuedTask(task) }),
    }
  }

  commit({ id, record, post = [], task }: contract.Commit): contract.Committed {
    this.#sweep()
    if (record !== undefined && String(this.#jobs.get(id)?.stored?.sequence ?? "") !== record.expect) {
      return { status: "conflict" }
    }
    const revision = record === undefined ? "" : this.#store(id, record)
    // Before the postings, which may be of the same job.
    const isDone = task === undefined || this.#end(id, task)
    for (const posting of post) this.post(posting)
    return isDone ? { status: "committed", revision } : { status: "committed", revision, gone: true }
  }

  query({ limit, after, budget = Number.POSITIVE_INFINITY, ...query }: Query): FoundJobs {
    this.#sweep()
    if (!/^\d{1,15}$/.test(after ?? "0")) throw new TransportError("invalid", `not a cursor: ${after?.slice(0, 40)}`)
    const end = performance.now() + budget
    let last = Number(after ?? Number.POSITIVE_INFINITY)
    const jobs: Array<FoundJob> = []
    for (const [id, job] of [...this.#jobs].reverse()) {
      if (job.sequence >= last) continue
      if (jobs.length === limit) return { jobs, next: String(last) }
      if (performance.now() > end) return { jobs, next: String(last), partial: true }
      const index = job.stored?.index ?? [...job.tasks].at(-1)?.posting.index
      const known = index !== undefined && matches(index, query) ? this.read(id, "all") : undefined
      if (known !== undefined) jobs.push({ ...known, id })
      last = job.sequence
    }
    return { jobs }
  }

  queues(): ReadonlyArray<QueueDepth> {
    const now = Date.now()
    return [...this.#lanes].map(([queue, lane]) => {
      const { ready, later } = lane.advance(now)
      const held = [...later].filter(({ place }) => place === "held").length
      const counts = { queue, ready: ready.size, scheduled: later.size - held, held }
      return ready.size === 0 ? counts : { ...counts, oldest: [...ready].reduce((a, { at }) => Math.min(a, at), now) }
    })
  }

  waiting(what: Parameters<QueueBrowser["waiting"]>[0], max: number): ReadonlyArray<string> {
    const ids: Array<string> = []
    for (const { posting, place } of "queue" in what ? this.#inOrder(what.queue) : this.#expired(what.expiredBy)) {
      if (ids.length >= max) break
      if (place !== "held" && posting.id !== "") ids.push(posting.id)
    }
    return ids
  }

  *#inOrder(queue: string): Iterable<Task> {
    const lane = this.#lanes.get(queue)?.advance(Date.now())
    yield* lane?.ready ?? []
    yield* lane?.later ?? []
  }

  #expired(by: number): ReadonlyArray<Task> {
    for (const lane of this.#lanes.values()) lane.advance(Date.now())
    const endOf = ({ posting }: Task) => posting.expires ?? Number.POSITIVE_INFINITY
    return [...this.#tasks.values()].filter((task) => endOf(task) <= by).sort((a, b) => endOf(a) - endOf(b))
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
      lane = new Lane()
      this.#lanes.set(name, lane)
    }
    return lane
  }

  #store(id: string, { bytes, index, keep = Number.POSITIVE_INFINITY }: contract.CommitRecord): string {
    const job = this.#job(id)
    if (job.stored !== undefined) this.#ends.remove(job.stored)
    job.stored = { id, bytes: bytes.slice(), index, sequence: ++this.#counter, until: Date.now() + keep }
    if (keep < Number.POSITIVE_INFINITY) this.#ends.add(job.stored)
    this.#tell({ kind: "job", id, record: bytes.slice() })
    return String(job.stored.sequence)
  }

  #enqueue(posting: Task["posting"], frame: Uint8Array): Task {
    const at = Date.now()
    const sequence = ++this.#counter
    const task: Task = { posting, frame, sequence, at, place: "gone", until: 0, token: "", deliveries: 0 }
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
  #end(id: string, how: contract.TaskEnd): boolean {
    if (how.kind === "withdraw") {
      for (const task of this.#jobs.get(id)?.tasks ?? []) this.#remove(task)
      return true
    }
    const task = this.#taskOf(how.token)
    if (task === undefined) return false
    if (how.kind === "ack") this.#remove(task)
    else {
      const { queue } = task.posting
      task.token = ""
      this.#lane(queue).move(task, how.delay > 0 ? "scheduled" : "ready", Date.now() + how.delay)
      this.#tell({ kind: "queue", queue })
    }
    return true
  }

  #remove(task: Task): void {
    const { queue, id } = task.posting
    const lane = this.#lane(queue)
    lane.move(task, "gone")
    if (lane.ready.size + lane.later.size === 0) this.#lanes.delete(queue)
    this.#tasks.delete(task.sequence)
    this.#jobs.get(id)?.tasks.delete(task)
    this.#forget(id)
  }

  /** Removes records that were kept for long enough. */
  #sweep(): void {
    for (const { id } of this.#ends.ended()) {
      const job = this.#jobs.get(id)
      if (job !== undefined) job.stored = undefined
      this.#forget(id)
    }
  }

  #forget(id: string): void {
    const job = this.#jobs.get(id)
    if (job?.stored === undefined && job?.tasks.size === 0) this.#jobs.delete(id)
  }
}

const deliver = (task: Task): contract.Delivery => {
  const { sequence, frame } = task
  const { queue, level } = task.posting
  const deliveries = ++task.deliveries
  task.token = `${sequence}.${deliveries}`
  const fence = String(deliveries).padStart(9, "0")
  const content = frame.slice()
  return { token: task.token, queue, level, sequence, first: deliveries === 1, fence, deliveries, content }
}

const queuedTask = ({ posting, place, until, at, frame }: Task): QueuedTask => {
  const { queue, due, expires } = posting
  const times = { ...(due === undefined ? {} : { due }), ...(expires === undefined ? {} : { expires }) }
  return { queue, at, held: place === "held" && until > Date.now(), content: frame.slice(), ...times }
}
