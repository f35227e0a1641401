/** A heap that forgets lazily: what died inside it is skipped, and swept out once it outnumbers what lives. */

export class Heap<T> {
  #items: T[] = []
  #withered = 0
  readonly #before: (a: T, b: T) => boolean
  readonly #alive: (item: T) => boolean

  constructor(before: (a: T, b: T) => boolean, alive: (item: T) => boolean) {
    this.#before = before
    this.#alive = alive
  }

  push(item: T): void {
    const items = this.#items
    let at = items.push(item) - 1
    while (at > 0) {
      const up = (at - 1) >> 1
      const parent = items[up]
      if (parent === undefined || !this.#before(item, parent)) break
      items[at] = parent
      at = up
    }
    items[at] = item
  }

  /** The first living item. */
  peek(): T | undefined {
    for (;;) {
      const first = this.#items[0]
      if (first === undefined || this.#alive(first)) return first
      this.#withered = Math.max(0, this.#withered - 1)
      this.#removeFirst()
    }
  }

  pop(): T | undefined {
    const first = this.peek()
    if (first !== undefined) this.#removeFirst()
    return first
  }

  /** Says that one of the items inside has died, so that the dead never take more room than the living. */
  wither(): void {
    if (++this.#withered < 1_000 || this.#withered * 2 < this.#items.length) return
    const living = this.living()
    this.#items = []
    this.#withered = 0
    for (const item of living) this.push(item)
  }

  /** In no particular order. */
  living(): ReadonlyArray<T> {
    return this.#items.filter(this.#alive)
  }

  /** The living, first one first. Whoever takes only a few pays only for those; nothing may change meanwhile. */
  *inOrder(): Iterable<T> {
    const items = this.#items
    const next = new Heap<number>(
      (a, b) => {
        const [first, second] = [items[a], items[b]]
        return first !== undefined && second !== undefined && this.#before(first, second)
      },
      () => true,
    )
    if (items.length > 0) next.push(0)
    for (let at = next.pop(); at !== undefined; at = next.pop()) {
      const item = items[at]
      if (item !== undefined && this.#alive(item)) yield item
      for (const child of [2 * at + 1, 2 * at + 2]) if (child < items.length) next.push(child)
    }
  }

  #removeFirst(): void {
    const items = this.#items
    const last = items.pop()
    if (last === undefined || items.length === 0) return
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      let smallest = items[child]
      if (smallest === undefined) break
      const right = items[child + 1]
      if (right !== undefined && this.#before(right, smallest)) {
        smallest = right
        child++
      }
      if (!this.#before(smallest, last)) break
      items[at] = smallest
      at = child
    }
    items[at] = last
  }
}
