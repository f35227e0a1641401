/**
 * Where tasks wait in a worker for their limits: one line per limit and tenant, each in the order of the queues. The room is
 * bounded: where it is full, the last one of the longest line must leave, so that no tenant can fill it for the others.
 */

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
