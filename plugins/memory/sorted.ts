/** Items in order, in one array: most are added at its end and taken at its beginning. */
export class Sorted<T> {
  #items: Array<T | undefined> = []
  /** Items before this place were taken; they are swept out now and then. */
  #from = 0
  readonly #compare: (a: T, b: T) => number

  /** Items that are not the same never compare as equal. */
  constructor(compare: (a: T, b: T) => number) {
    this.#compare = compare
  }

  get size(): number {
    return this.#items.length - this.#from
  }

  get first(): T | undefined {
    return this.#items[this.#from]
  }

  add(item: T): void {
    this.#items.splice(this.#place(item), 0, item)
  }

  remove(item: T): void {
    const at = this.#place(item)
    if (this.#items[at] !== item) return
    if (at > this.#from) {
      this.#items.splice(at, 1)
      return
    }
    this.#items[at] = undefined
    this.#from++
    if (this.#from < 1_000 || this.#from * 2 < this.#items.length) return
    this.#items = this.#items.slice(this.#from)
    this.#from = 0
  }

  /** From this item on, or from the first that comes after it. */
  *from(item: T): Iterable<T> {
    for (let at = this.#place(item); at < this.#items.length; at++) {
      const each = this.#items[at]
      if (each !== undefined) yield each
    }
  }

  *[Symbol.iterator](): Iterator<T> {
    if (this.first !== undefined) yield* this.from(this.first)
  }

  #place(item: T): number {
    let low = this.#from
    let high = this.#items.length
    const last = this.#items[high - 1]
    if (high > low && last !== undefined && this.#compare(last, item) < 0) return high
    while (low < high) {
      const middle = (low + high) >> 1
      const other = this.#items[middle]
      if (other !== undefined && this.#compare(other, item) < 0) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** Items that end, by when they do. */
export class Ending<T extends { readonly until: number; readonly sequence: number }> extends Sorted<T> {
  constructor() {
    super((a, b) => a.until - b.until || a.sequence - b.sequence)
  }

  /** Takes out what has ended. */
  *ended(now = Date.now()): Iterable<T> {
    for (let item = this.first; item !== undefined && item.until <= now; item = this.first) {
      this.remove(item)
      yield item
    }
  }
}
