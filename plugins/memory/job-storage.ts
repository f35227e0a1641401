/**
 * Queues and records in memory, and the commits that change both.
 *
 * All times are those of the monotonic clock: an operator who sets the wall clock ends no lease. A due time, which is a
 * time of day, is turned into one when its task is posted.
 */
import type * as contract from "../../runtime/transport/mod.ts"
import { matches, TransportError } from "../../runtime/transport/mod.ts"
import { type Listed, Listings } from "./listing.ts"
import { ExpiryQueue, Sorted } from "./sorted.ts"

/** One task in a queue. Its content is a copy of the bytes, which callers cannot change. */
interface Task {
  readonly posting: Omit<contract.Posting, "message" | "frame">
  readonly frame: Uint8Array
  readonly sequence: number
  /** When it was posted, in milliseconds since the epoch. */
  readonly at: number
  /** 0: the task can be taken now. Else when it falls due, or when the lease of its delivery ends. */
  until: number
  /** Token of the last delivery; "" before the first one, and once the task was given back. */
  token: string
  deliveries: number
}

const isHeld = ({ until, token }: Task): boolean => until > 0 && token !== ""

interface Stored extends Pick<contract.CommitRecord, "bytes" | "index"> {
  readonly id: string
  /** The revision, as a number. */
  readonly sequence: number
  readonly until: number
}

interface Job extends Listed {
  /** Publish keys, remembered for as long as the job is known. */
  readonly keys: Set<string>
  /** Tasks that are in queues, oldest first; rarely more than one. */
  readonly tasks: Array<Task>
  stored?: Stored | undefined
}

/** The order in which tasks of one queue are taken; those that cannot be taken yet are last. */
const inOrder = (a: Task, b: Task): number =>
  a.until - b.until || b.posting.level - a.posting.level || a.sequence - b.sequence

export class JobStorage {
  readonly #emit: (news: contract.News) => void
  /** Tasks of all queues by sequence, oldest first. */
  readonly #tasks = new Map<number, Task>()
  /** Tasks that can be taken now, by queue. */
  readonly #ready = new Map<string, Sorted<Task>>()
  /** Scheduled and held tasks of all queues, by when they can be taken. */
  readonly #later = new ExpiryQueue<Task>()
  readonly #jobs = new Map<string, Job>()
  readonly #listings = new Listings<Job>()
  /** Records with a limited time to live. */
  readonly #expiring = new ExpiryQueue<Stored>()
  #counter = 0

  constructor(emit: (news: contract.News) => void) {
    this.#emit = emit
  }

  /** Makes tasks ready that have fallen due or whose lease has ended, and removes records that are not kept any more. */
  sweep(): void {
    for (const task of this.#later.takeExpired()) {
      task.until = 0
      this.#listOf(task).add(task)
    }
    for (const { id } of this.#expiring.takeExpired()) {
      const job = this.#jobs.get(id)
      if (job !== undefined) job.stored = undefined
      this.#forget(id)
    }
  }

  post({ message: _message, frame, ...posting }: contract.Posting): "stored" | "duplicate" {
    const job = this.#job(posting.id)
    if (job.keys.has(posting.key)) return "duplicate"
    job.keys.add(posting.key)
    job.tasks.push(this.#enqueue(posting, frame.slice()))
    this.#list(job)
    this.#emit({ kind: "job", id: posting.id })
    return "stored"
  }

  /** Puts bytes that need not be a task into a queue, for tests. */
  inject(queue: string, frame: Uint8Array): void {
    this.#enqueue(
      { id: "", key: "", queue, level: 4, index: { state: "queued", queue, task: "", at: Date.now() } },
      frame,
    )
  }

  /** The queues of the request are already rotated. */
  take({ queues, max, rotate }: contract.TakeRequest, lease: number): contract.Taken {
    const now = performance.now()
    const deliveries: Array<contract.Delivery> = []
    for (let before = -1; deliveries.length > before && deliveries.length < max; ) {
      before = deliveries.length
      for (const queue of queues) {
        const ready = this.#ready.get(queue)
        const turn = Math.min(max, deliveries.length + (rotate ? 1 : max))
        for (let task = ready?.first; task !== undefined && deliveries.length < turn; task = ready?.first) {
          this.#move(task, now + lease)
          deliveries.push(deliver(task))
        }
      }
    }
    const next = deliveries.length > 0 ? undefined : this.#later.find(({ posting }) => queues.includes(posting.queue))
    return next === undefined ? { deliveries } : { deliveries, next: next.until - now }
  }

  extend(token: string, lease: number): boolean {
    const task = this.#taskOf(token)
    if (task === undefined) return false
    this.#move(task, performance.now() + lease)
    return true
  }

  read(id: string, what: "record" | "all"): contract.Known | undefined {
    const { stored, tasks = [] } = this.#jobs.get(id) ?? {}
    const task = what === "all" ? tasks.at(-1) : undefined
    if (stored === undefined && task === undefined) return undefined
    return {
      revision: String(stored?.sequence ?? ""),
      ...(stored === undefined ? {} : { record: stored.bytes.slice() }),
      ...(task === undefined ? {} : { task: queuedTask(task) }),
    }
  }

  commit({ id, record, post = [], task, unique }: contract.Commit): contract.Committed {
    const known = unique ? post.filter((posting) => this.#jobs.get(posting.id)?.keys.has(posting.key)) : []
    if (known.length > 0) return { status: "conflict", known: known.map((posting) => posting.id) }
    if (record !== undefined && String(this.#jobs.get(id)?.stored?.sequence ?? "") !== record.expect) {
      return { status: "conflict" }
    }
    const revision = record === undefined ? "" : this.#store(id, record)
    // Before the postings: a withdraw must not remove a task that this commit posts.
    const isDone = task === undefined || this.#end(id, task)
    for (const posting of post) this.post(posting)
    return isDone ? { status: "committed", revision } : { status: "committed", revision, gone: true }
  }

  query(query: contract.Query): contract.FoundJobs {
    const { limit, after, budget = Number.POSITIVE_INFINITY, signal, bare, ...filter } = query
    if (!/^\d{1,15}$/.test(after ?? "0")) throw new TransportError("invalid", `not a cursor: ${after?.slice(0, 40)}`)
    const end = performance.now() + budget
    let last = Number(after ?? Number.POSITIVE_INFINITY)
    let scanned = 0
    const jobs: Array<contract.FoundJob> = []
    for (const job of this.#listings.newest(filter, last)) {
      if (jobs.length === limit) return { jobs, next: String(last), scanned }
      // A signal cannot fire while this runs.
      const isOver = scanned > 0 && (signal?.aborted || performance.now() > end)
      if (isOver) return { jobs, next: String(last), partial: true, scanned }
      scanned++
      last = job.sequence
      const { listed, id } = job
      if (listed === undefined || !matches(listed, filter) || !id.toLowerCase().endsWith(filter.idEnds ?? "")) continue
      const known = bare ? { revision: "" } : this.read(id, "all")
      if (known !== undefined) jobs.push({ ...known, id })
    }
    return { jobs, scanned }
  }

  count(state: contract.Index["state"], queue?: string): number {
    if (queue === undefined) return this.#listings.size(state)
    let count = 0
    for (const { listed } of this.#listings.newest({ states: [state], queue }, Number.POSITIVE_INFINITY)) {
      if (listed?.state === state && listed.queue === queue) count++
    }
    return count
  }

  queues(): ReadonlyArray<contract.QueueDepth> {
    const depths = new Map<string, { -readonly [Field in keyof contract.QueueDepth]: contract.QueueDepth[Field] }>()
    for (const task of this.#tasks.values()) {
      const { queue } = task.posting
      const depth = depths.get(queue) ?? { queue, ready: 0, scheduled: 0, held: 0 }
      depths.set(queue, depth)
      depth[isHeld(task) ? "held" : task.until > 0 ? "scheduled" : "ready"]++
      if (task.until === 0) depth.oldest = Math.min(depth.oldest ?? Number.POSITIVE_INFINITY, task.posting.index.at)
    }
    return [...depths.values()]
  }

  waiting(what: Parameters<contract.QueueBrowser["waiting"]>[0], max: number): ReadonlyArray<string> {
    const endOf = ({ posting }: Task) => posting.expires ?? Number.POSITIVE_INFINITY
    const isWanted = (task: Task) =>
      "queue" in what ? task.posting.queue === what.queue : endOf(task) <= what.expiredBy
    return [...this.#tasks.values()]
      .filter((task) => isWanted(task) && !isHeld(task) && task.posting.id !== "")
      .sort("queue" in what ? inOrder : (a, b) => endOf(a) - endOf(b))
      .slice(0, max)
      .map(({ posting }) => posting.id)
  }

  #job(id: string): Job {
    let job = this.#jobs.get(id)
    if (job === undefined) {
      job = { id, sequence: ++this.#counter, keys: new Set(), tasks: [] }
      this.#jobs.set(id, job)
    }
    return job
  }

  #store(id: string, { bytes, index, keep = Number.POSITIVE_INFINITY }: contract.CommitRecord): string {
    const job = this.#job(id)
    if (job.stored !== undefined) this.#expiring.remove(job.stored)
    job.stored = { id, bytes: bytes.slice(), index, sequence: ++this.#counter, until: performance.now() + keep }
    if (keep < Number.POSITIVE_INFINITY) this.#expiring.add(job.stored)
    this.#list(job)
    this.#emit({ kind: "job", id, record: bytes.slice() })
    return String(job.stored.sequence)
  }

  #enqueue(posting: Task["posting"], frame: Uint8Array): Task {
    const { due = 0, queue } = posting
    const at = Date.now()
    const sequence = ++this.#counter
    const until = due > at ? performance.now() + due - at : 0
    const task: Task = { posting, frame, sequence, at, until, token: "", deliveries: 0 }
    this.#tasks.set(sequence, task)
    this.#listOf(task).add(task)
    this.#emit({ kind: "queue", queue })
    return task
  }

  /** The list that has the task now. */
  #listOf({ until, posting: { queue } }: Task): Sorted<Task> {
    if (until > 0) return this.#later
    let ready = this.#ready.get(queue)
    if (ready === undefined) {
      ready = new Sorted(inOrder)
      this.#ready.set(queue, ready)
    }
    return ready
  }

  #move(task: Task, until: number): void {
    this.#listOf(task).remove(task)
    task.until = until
    this.#listOf(task).add(task)
  }

  /** The task of a token, if that delivery still has it. */
  #taskOf(token: string): Task | undefined {
    const task = this.#tasks.get(Number.parseInt(token, 10))
    return task?.token === token ? task : undefined
  }

  /** Returns whether the delivery still had the task. */
  #end(id: string, how: contract.TaskEnd): boolean {
    if (how.kind === "withdraw") {
      for (const task of [...(this.#jobs.get(id)?.tasks ?? [])]) this.#remove(task)
      return true
    }
    const task = this.#taskOf(how.token)
    if (task === undefined) return false
    if (how.kind === "ack") this.#remove(task)
    else {
      task.token = ""
      this.#move(task, how.delay > 0 ? performance.now() + how.delay : 0)
      this.#emit({ kind: "queue", queue: task.posting.queue })
    }
    return true
  }

  #remove(task: Task): void {
    const { queue, id } = task.posting
    this.#listOf(task).remove(task)
    if (this.#ready.get(queue)?.first === undefined) this.#ready.delete(queue)
    this.#tasks.delete(task.sequence)
    const tasks = this.#jobs.get(id)?.tasks
    tasks?.splice(tasks.indexOf(task), 1)
    this.#forget(id)
  }

  #forget(id: string): void {
    const job = this.#jobs.get(id)
    if (job === undefined) return
    this.#list(job)
    if (job.stored === undefined && job.tasks.length === 0) this.#jobs.delete(id)
  }

  /** Lists the job by its record, or by its newest task where it has none. */
  #list(job: Job): void {
    const index = job.stored?.index ?? job.tasks.at(-1)?.posting.index
    this.#listings.put(job, index?.hidden ? undefined : index)
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

const queuedTask = (task: Task): contract.QueuedTask => {
  const { queue, due, expires } = task.posting
  const times = { ...(due === undefined ? {} : { due }), ...(expires === undefined ? {} : { expires }) }
  const { at, deliveries } = task
  return { queue, at, held: isHeld(task), deliveries, content: task.frame.slice(), ...times }
}
