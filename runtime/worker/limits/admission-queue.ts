/**
 * Where tasks wait in a worker for their limits: one tasks per limit and tenant, each in the order of the queues. The room is
 * bounded: where it is full, the last one of the longest tasks must leave, so that no tenant can fill it for the others. When
 * that comes again is in proportion to its place in tasks, so that ten thousand that wait cost little. Rather too early than too
 * late: one that comes early stays in its queue until there is room, while permits of a limit would be idle if all its tasks
 * came late. Pure: clock and randomness come from outside.
 */

/** Those that come one after the other come together: each for itself would cost a look into the queue. */
const TOGETHER_MS = 100
/** A tasks is taken to have so many at least. */
const LEAST_LENGTH = 50
/** While that is not known: the first to be put off are not back before the worker has come to those behind them. */
const FIRST_EACH_MS = 2
const LEAST_EACH_MS = 0.25
/** A tasks that hardly moves: each of its tasks comes so often at least, by its length. */
const MOST_EACH_MS = 5
/** After so many starts it is known how fast a tasks moves. */
const KNOWN_STARTS = 16
export const LONGEST_WAIT_MS = 5 * 60_000
/** After so many starts the older half counts no more. */
const MOST_STARTS = 64

export interface AdmissionQueueOptions<A> {
  /** How many may wait in all. */
  readonly capacity: () => number
  readonly precedes: (a: A, b: A) => boolean
}

export class AdmissionQueue<A> {
  readonly #options: AdmissionQueueOptions<A>
  readonly #queues = new Map<string, Array<A>>()
  #size = 0

  constructor(options: AdmissionQueueOptions<A>) {
    this.#options = options
  }

  get size(): number {
    return this.#size
  }

  /** Lines that are not empty. */
  get keys(): Iterable<string> {
    return this.#queues.keys()
  }

  tasksOf(key: string): ReadonlyArray<A> {
    return this.#queues.get(key) ?? []
  }

  /** The task that is first in a queue. */
  first(key: string): A | undefined {
    return this.#queues.get(key)?.[0]
  }

  /** Whether something would have to leave at once. */
  isFullFor(key: string, item: A): boolean {
    if (this.#size < this.#options.capacity()) return false
    const tasks = this.tasksOf(key)
    const last = tasks.at(-1)
    if (last !== undefined && this.#options.precedes(item, last)) return false
    for (const other of this.#queues.values()) if (other !== tasks && other.length > tasks.length + 1) return false
    return true
  }

  /** Lets something in; what must leave for it is returned. */
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

  /** False if it is not there. */
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

/** What a worker knows of the speed of one queue, and of those of it that it has put off. */
export class BacklogEstimate {
  readonly #phase: number
  /** Since when starts are counted, while tasks wait. */
  #since: number | undefined
  #starts = 0
  /** When the last one of those that were put off comes. */
  #endsAt = 0
  #length = 0

  /** `phase`: when those that come together come, so that the workers do not all look at the same moment. */
  constructor(phase = TOGETHER_MS * Math.random()) {
    this.#phase = phase
  }

  /** When the last one comes, in milliseconds; in the past when none is expected. */
  get endsAt(): number {
    return this.#endsAt
  }

  /** Whether tasks wait. Only while some do, starts show how fast the tasks moves. */
  setWaiting(some: boolean, now: number): void {
    if (!some) this.#since = undefined
    else if (this.#since === undefined) {
      this.#since = now
      this.#starts = 0
    }
  }

  /** One has started. */
  started(now: number): void {
    if (this.#since === undefined) return
    this.#starts++
    if (this.#starts < MOST_STARTS) return
    this.#starts /= 2
    this.#since += (now - this.#since) / 2
  }

  /** One of those that were put off is here again. */
  returned(): void {
    this.#length = Math.max(0, this.#length - 1)
  }

  /** Milliseconds from one start to the next. */
  spacing(now: number): number {
    return this.#since === undefined ? 0 : (now - this.#since) / (this.#starts + 1)
  }

  /** Milliseconds until a task should come again that was delivered so many times. `random`: 0 to 1. */
  deferralMs(now: number, deliveries: number, random: number): number {
    if (this.#endsAt <= now) this.#length = 0
    this.#length++
    // Half of the time that the tasks will take: how fast it moves is not known well, and at first not at all.
    const isKnown = deliveries > 1 || this.#starts >= KNOWN_STARTS
    const each = isKnown ? Math.min(MOST_EACH_MS, Math.max(LEAST_EACH_MS, this.spacing(now) / 2)) : FIRST_EACH_MS
    const delay = Math.max(LEAST_LENGTH, this.#length) * each * (0.75 + random / 2)
    const endsAt = now + Math.min(delay, LONGEST_WAIT_MS - TOGETHER_MS)
    const at = Math.ceil((endsAt - this.#phase) / TOGETHER_MS) * TOGETHER_MS + this.#phase
    this.#endsAt = Math.max(this.#endsAt, at)
    return at - now
  }
}
