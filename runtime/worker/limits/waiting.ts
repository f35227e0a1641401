/**
 * The tasks of a worker that wait for their limits: one queue per limit and tenant, each in the order in which
 * deliveries start. The total is bounded. Beyond it the last task of the longest queue is postponed, so that no
 * tenant can fill the worker for the others. The delay is in proportion to the task's position, so that ten thousand waiting
 * tasks cost little. It is rather too short than too long: a task that comes early stays in its broker queue until
 * there is space, while permits would be unused if all tasks came late. Pure: clock and randomness are passed in.
 */

/** Postponed tasks come back in groups at this interval, because each pull costs a round trip. */
const TOGETHER_MS = 100
/** Shortest backlog that a delay is computed for, in tasks. */
const MIN_LENGTH = 50
/**
 * Milliseconds per task while the speed of the queue is unknown: the first postponed tasks must not come back before
 * the worker has reached the tasks behind them.
 */
const FIRST_EACH_MS = 2
const MIN_EACH_MS = 0.25
/**
 * Longest time per task of the backlog, so that the tasks of a queue that hardly moves are still tried now and then. It is
 * longer where a pull takes long, up to {@link MAX_SLOW_EACH_MS}.
 */
const MAX_EACH_MS = 5
/**
 * Time per task in a queue that hardly moves, as a multiple of what one task of a pull takes. A task costs a pull and a
 * settlement, and tasks that come again must leave half of that time to those behind them, which brokers deliver later.
 */
const PULLS_EACH = 4
const MAX_SLOW_EACH_MS = 100
/** Starts after which the speed of a queue is known. */
const KNOWN_STARTS = 16
export const MAX_WAIT_MS = 5 * 60_000
/** Starts after which the older half is forgotten. */
const MAX_STARTS = 64

export interface WaitingTasksOptions<A> {
  /** Largest number of waiting tasks in all queues together. */
  readonly capacity: () => number
  readonly precedes: (a: A, b: A) => boolean
}

export class WaitingTasks<A> {
  readonly #options: WaitingTasksOptions<A>
  readonly #queues = new Map<string, Array<A>>()
  #size = 0

  constructor(options: WaitingTasksOptions<A>) {
    this.#options = options
  }

  get size(): number {
    return this.#size
  }

  /** Keys of the queues that are not empty. */
  get keys(): Iterable<string> {
    return this.#queues.keys()
  }

  tasksOf(key: string): ReadonlyArray<A> {
    return this.#queues.get(key) ?? []
  }

  /** The first task of a queue. */
  first(key: string): A | undefined {
    return this.#queues.get(key)?.[0]
  }

  /** Whether the queue is full and `item` itself would be the task that is postponed. */
  isFullFor(key: string, item: A): boolean {
    if (this.#size < this.#options.capacity()) return false
    const tasks = this.tasksOf(key)
    const last = tasks.at(-1)
    if (last !== undefined && this.#options.precedes(item, last)) return false
    for (const other of this.#queues.values()) if (other !== tasks && other.length > tasks.length + 1) return false
    return true
  }

  /** Adds a task. Returns the task that must be postponed for it, if the queue is full. */
  add(key: string, item: A): A | undefined {
    const tasks = this.#queues.get(key) ?? []
    this.#queues.set(key, tasks)
    let at = tasks.length
    for (
      let before = tasks[at - 1];
      before !== undefined && this.#options.precedes(item, before);
      before = tasks[at - 1]
    )
      at--
    tasks.splice(at, 0, item)
    this.#size++
    if (this.#size <= this.#options.capacity()) return undefined
    let longest = { key, tasks }
    for (const [other, queued] of this.#queues)
      if (queued.length > longest.tasks.length) longest = { key: other, tasks: queued }
    const last = longest.tasks.at(-1)
    if (last !== undefined) this.remove(longest.key, last)
    return last
  }

  /** Removes a task. False if it does not wait here. */
  remove(key: string, item: A): boolean {
    const tasks = this.#queues.get(key) ?? []
    const at = tasks.indexOf(item)
    if (at < 0) return false
    tasks.splice(at, 1)
    this.#size--
    if (tasks.length === 0) this.#queues.delete(key)
    return true
  }
}

/**
 * Estimates how fast one queue moves and how many of its tasks are postponed, and so when a postponed task should come
 * back.
 */
export class Backlog {
  readonly #phase: number
  /** Time since which starts are counted; `undefined` while no task waits. */
  #since: number | undefined
  #starts = 0
  /** When the last postponed task comes back. */
  #endsAt = 0
  #length = 0

  /**
   * `phase`: offset of the groups in which tasks come back, random so that workers do not all pull at the same moment.
   */
  constructor(phase = TOGETHER_MS * Math.random()) {
    this.#phase = phase
  }

  /** When the last postponed task comes back, in milliseconds; in the past when none is expected. */
  get endsAt(): number {
    return this.#endsAt
  }

  /** Sets whether tasks wait. Starts show the speed of the queue only while tasks wait. */
  setWaiting(some: boolean, now: number): void {
    if (!some) this.#since = undefined
    else if (this.#since === undefined) {
      this.#since = now
      this.#starts = 0
    }
  }

  /** Counts a start. */
  started(now: number): void {
    if (this.#since === undefined) return
    this.#starts++
    if (this.#starts < MAX_STARTS) return
    this.#starts /= 2
    this.#since += (now - this.#since) / 2
  }

  /** A postponed task has come back. */
  returned(): void {
    this.#length = Math.max(0, this.#length - 1)
  }

  /** Milliseconds from one start to the next. */
  spacing(now: number): number {
    return this.#since === undefined ? 0 : (now - this.#since) / (this.#starts + 1)
  }

  /**
   * When a task that is postponed now should be delivered again. `deliveries`: how often it was delivered. `random`: 0 to
   * 1. `pullMs`: milliseconds that one task of a pull takes; 0 if that is unknown.
   */
  returnsAt(now: number, deliveries: number, random: number, pullMs: number): number {
    const length = this.#lengthAt(now) + 1
    // Half of the time that the queue is expected to take, because its speed is an estimate, and unknown at first.
    const isKnown = deliveries > 1 || this.#starts >= KNOWN_STARTS
    const half = this.spacing(now) / 2
    const each = isKnown ? Math.min(MAX_EACH_MS, Math.max(MIN_EACH_MS, half)) : FIRST_EACH_MS
    const slowEach = isKnown ? Math.min(MAX_SLOW_EACH_MS, PULLS_EACH * pullMs, half) : 0
    const delay = Math.max(Math.max(MIN_LENGTH, length) * each, length * slowEach) * (0.75 + random / 2)
    const endsAt = now + Math.min(delay, MAX_WAIT_MS - TOGETHER_MS)
    return Math.ceil((endsAt - this.#phase) / TOGETHER_MS) * TOGETHER_MS + this.#phase
  }

  /** Counts a task that was postponed until `at`. */
  postponed(at: number, now: number): void {
    this.#length = this.#lengthAt(now) + 1
    this.#endsAt = Math.max(this.#endsAt, at)
  }

  /** Number of postponed tasks that have not come back; none once the last one had to be back. */
  #lengthAt(now: number): number {
    return this.#endsAt <= now ? 0 : this.#length
  }
}
