/**
 * Where tasks wait in a worker for their limits: one line per limit and tenant, each in the order of the queues. The room is
 * bounded: where it is full, the last one of the longest line must leave, so that no tenant can fill it for the others. When
 * that comes again is in proportion to its place in line, so that ten thousand that wait cost little. Rather too early than too
 * late: one that comes early stays in its queue until there is room, while permits of a limit would be idle if all its tasks
 * came late. Pure: clock and randomness come from outside.
 */

/** Those that come one after the other come together: each for itself would cost a look into the queue. */
const TOGETHER_MS = 100
/** A line is taken to have so many at least. */
const LEAST_LENGTH = 50
/** While that is not known: the first to be put off are not back before the worker has come to those behind them. */
const FIRST_EACH_MS = 2
const LEAST_EACH_MS = 0.25
/** A line that hardly moves: each of its tasks comes so often at least, by its length. */
const MOST_EACH_MS = 5
/** After so many starts it is known how fast a line moves. */
const KNOWN_STARTS = 16
export const LONGEST_WAIT_MS = 5 * 60_000
/** After so many starts the older half counts no more. */
const MOST_STARTS = 64

export interface RoomOptions<A> {
  /** How many may wait in all. */
  readonly most: () => number
  readonly precedes: (a: A, b: A) => boolean
}

export class Room<A> {
  readonly #options: RoomOptions<A>
  readonly #lines = new Map<string, Array<A>>()
  #size = 0

  constructor(options: RoomOptions<A>) {
    this.#options = options
  }

  get size(): number {
    return this.#size
  }

  /** Lines that are not empty. */
  get keys(): Iterable<string> {
    return this.#lines.keys()
  }

  line(key: string): ReadonlyArray<A> {
    return this.#lines.get(key) ?? []
  }

  /** The first of a line. */
  first(key: string): A | undefined {
    return this.#lines.get(key)?.[0]
  }

  /** Whether something would have to leave at once. */
  refuses(key: string, item: A): boolean {
    if (this.#size < this.#options.most()) return false
    const line = this.line(key)
    const last = line.at(-1)
    if (last !== undefined && this.#options.precedes(item, last)) return false
    for (const other of this.#lines.values()) if (other !== line && other.length > line.length + 1) return false
    return true
  }

  /** Lets something in; what must leave for it is returned. */
  add(key: string, item: A): A | undefined {
    const line = this.#lines.get(key) ?? []
    this.#lines.set(key, line)
    let at = line.length
    for (let before = line[at - 1]; before !== undefined && this.#options.precedes(item, before); before = line[at - 1])
      at--
    line.splice(at, 0, item)
    this.#size++
    if (this.#size <= this.#options.most()) return undefined
    let longest = { key, line }
    for (const [other, tasks] of this.#lines)
      if (tasks.length > longest.line.length) longest = { key: other, line: tasks }
    const last = longest.line.at(-1)
    if (last !== undefined) this.remove(longest.key, last)
    return last
  }

  /** False if it is not there. */
  remove(key: string, item: A): boolean {
    const line = this.#lines.get(key) ?? []
    const at = line.indexOf(item)
    if (at < 0) return false
    line.splice(at, 1)
    this.#size--
    if (line.length === 0) this.#lines.delete(key)
    return true
  }
}

/** What a worker knows of the speed of one line, and of those of it that it has put off. */
export class Line {
  readonly #phase: number
  /** Since when starts are counted, while tasks wait. */
  #since: number | undefined
  #starts = 0
  /** When the last one of those that were put off comes. */
  #end = 0
  #length = 0

  /** `phase`: when those that come together come, so that the workers do not all look at the same moment. */
  constructor(phase = TOGETHER_MS * Math.random()) {
    this.#phase = phase
  }

  /** When the last one comes, in milliseconds; in the past when none is expected. */
  get end(): number {
    return this.#end
  }

  /** Whether tasks wait. Only while some do, starts show how fast the line moves. */
  waits(some: boolean, now: number): void {
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
  back(): void {
    this.#length = Math.max(0, this.#length - 1)
  }

  /** Milliseconds from one start to the next. */
  spacing(now: number): number {
    return this.#since === undefined ? 0 : (now - this.#since) / (this.#starts + 1)
  }

  /** Milliseconds until a task should come again that was delivered so many times. `random`: 0 to 1. */
  putOff(now: number, deliveries: number, random: number): number {
    if (this.#end <= now) this.#length = 0
    this.#length++
    // Half of the time that the line will take: how fast it moves is not known well, and at first not at all.
    const isKnown = deliveries > 1 || this.#starts >= KNOWN_STARTS
    const each = isKnown ? Math.min(MOST_EACH_MS, Math.max(LEAST_EACH_MS, this.spacing(now) / 2)) : FIRST_EACH_MS
    const delay = Math.max(LEAST_LENGTH, this.#length) * each * (0.75 + random / 2)
    const end = now + Math.min(delay, LONGEST_WAIT_MS - TOGETHER_MS)
    const at = Math.ceil((end - this.#phase) / TOGETHER_MS) * TOGETHER_MS + this.#phase
    this.#end = Math.max(this.#end, at)
    return at - now
  }
}
