/** Queues and records in memory, and the commits that change both. */
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
import { ExpiryQueue, Sorted } from "./sorted.ts"

/** One task in a queue. Its content is a copy of the bytes, which callers cannot change. */
interface Task {
  readonly posting: Omit<contract.Posting, "message" | "frame">
  readonly frame: Uint8Array
  readonly sequence: number
  readonly at: number
  status: "ready" | "scheduled" | "held" | "gone"
  /** For a scheduled task when it falls due; for a held task when its lease ends. */
  until: number
  /** Token of the last delivery; "" once the task was given back. */
  token: string
  deliveries: number
}

interface Stored extends Pick<contract.CommitRecord, "bytes" | "index"> {
  readonly id: string
  /** The revision, as a number. */
  readonly sequence: number
  readonly until: number
}

interface Job {
  /** Rises with the first task or record of each job; lists are ordered by it. */
  readonly sequence: number
  /** Publish keys, remembered for as long as the job is known. */
  readonly keys: Set<string>
  /** Tasks that are in queues, oldest first; rarely more than one. */
  readonly tasks: Set<Task>
  stored?: Stored | undefined
}

/** One queue: tasks that can be taken now, and tasks that can be taken later. */
class Queue {
  readonly ready = new Sorted<Task>((a, b) => b.posting.level - a.posting.level || a.sequence - b.sequence)
  /** Scheduled and held tasks, by when they become ready. */
  readonly later = new ExpiryQueue<Task>()

  /** Changes the status of a task, and moves it between the two lists. */
  move(task: Task, status: Task["status"], until = 0): void {
    if (task.status === "ready") this.ready.remove(task)
    else this.later.remove(task)
    task.status = status
    task.until = until
    if (status === "ready") this.ready.add(task)
    else if (status !== "gone") this.later.add(task)
  }

  /** Makes tasks ready that have fallen due or whose lease has ended. */
  advance(now: number): this {
    for (const task of this.later.takeExpired(now)) this.move(task, "ready")
    return this
  }
}

export class JobStorage {
  readonly #emit: (news: contract.News) => void
  readonly #queues = new Map<string, Queue>()
  /** Tasks of all queues by sequence. */
  readonly #tasks = new Map<number, Task>()
  readonly #jobs = new Map<string, Job>()
  /** Records with a limited time to live. */
  readonly #expiring = new ExpiryQueue<Stored>()
  #counter = 0

  constructor(emit: (news: contract.News) => void) {
    this.#emit = emit
  }

  post({ message: _message, frame, ...posting }: contract.Posting): "stored" | "duplicate" {
    const job = this.#job(posting.id)
    if (job.keys.has(posting.key)) return "duplicate"
    job.keys.add(posting.key)
    job.tasks.add(this.#enqueue(posting, frame.slice()))
    this.#emit({ kind: "job", id: posting.id })
    return "stored"
  }

  /** Puts bytes that need not be a task into a queue, for tests. */
  inject(queue: string, frame: Uint8Array): void {
    const index: Index = { state: "queued", queue, task: "", at: Date.now() }
    this.#enqueue({ id: "", key: "", queue, level: 4, index }, frame)
  }

  /** The queues of the request are already rotated. */
  take({ queues, max, rotate }: contract.TakeRequest, lease: number): contract.Taken {
    const now = Date.now()
    const named = queues.flatMap((name) => this.#queues.get(name)?.advance(now) ?? [])
    const deliveries: Array<contract.Delivery> = []
    for (let before = -1; deliveries.length > before && deliveries.length < max; ) {
      before = deliveries.length
      for (const queue of named) {
        const turn = Math.min(max, deliveries.length + (rotate ? 1 : max))
        for (let task = queue.ready.first; task !== undefined && deliveries.length < turn; task = queue.ready.first) {
          queue.move(task, "held", now + lease)
          deliveries.push(deliver(task))
        }
      }
    }
    const next = Math.min(...named.map(({ later }) => later.first?.until ?? Number.POSITIVE_INFINITY)) - now
    return deliveries.length > 0 || next === Number.POSITIVE_INFINITY ? { deliveries } : { deliveries, next }
  }

  extend(token: string, lease: number): boolean {
    const task = this.#taskOf(token)
    if (task === undefined || task.until <= Date.now()) return false
    this.#queue(task.posting.queue).move(task, "held", Date.now() + lease)
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
    // Before the postings: a withdraw must not remove a task that this commit posts.
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
    return [...this.#queues].map(([name, queue]) => {
      const { ready, later } = queue.advance(now)
      const held = [...later].filter(({ status }) => status === "held").length
      const counts = { queue: name, ready: ready.size, scheduled: later.size - held, held }
      return ready.size === 0 ? counts : { ...counts, oldest: [...ready].reduce((a, { at }) => Math.min(a, at), now) }
    })
  }

  waiting(what: Parameters<QueueBrowser["waiting"]>[0], max: number): ReadonlyArray<string> {
    const ids: Array<string> = []
    for (const { posting, status } of "queue" in what ? this.#inOrder(what.queue) : this.#expired(what.expiredBy)) {
      if (ids.length >= max) break
      if (status !== "held" && posting.id !== "") ids.push(posting.id)
    }
    return ids
  }

  *#inOrder(name: string): Iterable<Task> {
    const queue = this.#queues.get(name)?.advance(Date.now())
    yield* queue?.ready ?? []
    yield* queue?.later ?? []
  }

  #expired(by: number): ReadonlyArray<Task> {
    for (const queue of this.#queues.values()) queue.advance(Date.now())
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

  #queue(name: string): Queue {
    let queue = this.#queues.get(name)
    if (queue === undefined) {
      queue = new Queue()
      this.#queues.set(name, queue)
    }
    return queue
  }

  #store(id: string, { bytes, index, keep = Number.POSITIVE_INFINITY }: contract.CommitRecord): string {
    const job = this.#job(id)
    if (job.stored !== undefined) this.#expiring.remove(job.stored)
    job.stored = { id, bytes: bytes.slice(), index, sequence: ++this.#counter, until: Date.now() + keep }
    if (keep < Number.POSITIVE_INFINITY) this.#expiring.add(job.stored)
    this.#emit({ kind: "job", id, record: bytes.slice() })
    return String(job.stored.sequence)
  }

  #enqueue(posting: Task["posting"], frame: Uint8Array): Task {
    const at = Date.now()
    const sequence = ++this.#counter
    const task: Task = { posting, frame, sequence, at, status: "gone", until: 0, token: "", deliveries: 0 }
    this.#tasks.set(sequence, task)
    const { due = 0, queue } = posting
    this.#queue(queue).move(task, due > at ? "scheduled" : "ready", due)
    this.#emit({ kind: "queue", queue })
    return task
  }

  /** The task of a token, if that delivery still has it. */
  #taskOf(token: string): Task | undefined {
    const task = this.#tasks.get(Number.parseInt(token, 10))
    return task?.token === token ? task : undefined
  }

  /** Returns whether the delivery still had the task. */
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
      this.#queue(queue).move(task, how.delay > 0 ? "scheduled" : "ready", Date.now() + how.delay)
      this.#emit({ kind: "queue", queue })
    }
    return true
  }

  #remove(task: Task): void {
    const { queue: name, id } = task.posting
    const queue = this.#queue(name)
    queue.move(task, "gone")
    if (queue.ready.size + queue.later.size === 0) this.#queues.delete(name)
    this.#tasks.delete(task.sequence)
    this.#jobs.get(id)?.tasks.delete(task)
    this.#forget(id)
  }

  /** Removes records whose time to live has ended. */
  #sweep(): void {
    for (const { id } of this.#expiring.takeExpired()) {
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

const queuedTask = ({ posting, status, until, at, frame }: Task): QueuedTask => {
  const { queue, due, expires } = posting
  const times = { ...(due === undefined ? {} : { due }), ...(expires === undefined ? {} : { expires }) }
  return { queue, at, held: status === "held" && until > Date.now(), content: frame.slice(), ...times }
}
