/** A sorted list in one array, fast where most items are added at the end and removed at the beginning. */
export class Sorted<T> {
  #items: Array<T | undefined> = []
  /** Index of the first item. The slots before it are empty, and are removed now and then. */
  #from = 0
  readonly #compare: (a: T, b: T) => number

  /** `compare` returns 0 only for the same item. */
  constructor(compare: (a: T, b: T) => number) {
    this.#compare = compare
  }

  get first(): T | undefined {
    return this.#items[this.#from]
  }

  add(item: T): void {
    this.#items.splice(this.#indexOf(item), 0, item)
  }

  remove(item: T): void {
    const at = this.#indexOf(item)
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

  find(isWanted: (item: T) => boolean): T | undefined {
    return this.#items.find((item) => item !== undefined && isWanted(item))
  }

  /** Where the item is, or belongs. */
  #indexOf(item: T): number {
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

/** Items with a time limit, sorted by it. */
export class ExpiryQueue<T extends { readonly until: number; readonly sequence: number }> extends Sorted<T> {
  constructor() {
    super((a, b) => a.until - b.until || a.sequence - b.sequence)
  }

  /** Removes and returns items whose time has passed. */
  *takeExpired(now = performance.now()): Iterable<T> {
    for (let item = this.first; item !== undefined && item.until <= now; item = this.first) {
      this.remove(item)
      yield item
    }
  }
}
