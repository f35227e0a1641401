/**
 * Names in the order of the times at which they are due: a heap, so that ten thousand of them cost nothing while none
 * is due.
 */
interface Due {
  readonly name: string
  readonly at: number
}

export class DueQueue {
  /** A binary heap. Items whose time has changed stay until they come to the top. */
  #heap: Array<Due> = []
  readonly #times = new Map<string, number>()

  /** Sets when a name is due; `null` takes it out. */
  set(name: string, at: number | null): void {
    if (at === null) this.#times.delete(name)
    else if (this.#times.get(name) !== at) {
      this.#times.set(name, at)
      this.#push({ name, at })
    }
    // Names that change more often than they are due would make the heap grow.
    if (this.#heap.length > 2 * this.#times.size + 100) this.#rebuild()
  }

  /** Sets when a name is due, unless it is due earlier. */
  setLatest(name: string, at: number | null): void {
    const known = this.#times.get(name)
    if (at !== null && (known === undefined || at < known)) this.set(name, at)
  }

  /** Takes out all names but these. */
  keepOnly(names: ReadonlySet<string>): void {
    for (const name of this.#times.keys()) if (!names.has(name)) this.#times.delete(name)
  }

  /** When the first name is due. */
  get first(): number | undefined {
    this.#dropStale()
    return this.#heap[0]?.at
  }

  /** Takes out up to `max` names that are due at `now`, the earliest first. */
  take(now: number, max: number): ReadonlyArray<string> {
    const taken: Array<string> = []
    while (taken.length < max && (this.first ?? Number.POSITIVE_INFINITY) <= now) {
      const top = this.#pop()
      if (top === undefined) break
      this.#times.delete(top.name)
      taken.push(top.name)
    }
    return taken
  }

  #dropStale(): void {
    for (let top = this.#heap[0]; top !== undefined && this.#times.get(top.name) !== top.at; top = this.#heap[0])
      this.#pop()
  }

  #rebuild(): void {
    // A sorted list is a heap.
    this.#heap = [...this.#times].map(([name, at]) => ({ name, at })).sort((a, b) => a.at - b.at)
  }

  #push(item: Due): void {
    const heap = this.#heap
    let at = heap.length
    while (at > 0) {
      const above = (at - 1) >> 1
      const parent = heap[above]
      if (parent === undefined || parent.at <= item.at) break
      heap[at] = parent
      at = above
    }
    heap[at] = item
  }

  #pop(): Due | undefined {
    const heap = this.#heap
    const [top] = heap
    const last = heap.pop()
    if (last === undefined || heap.length === 0) return top
    let at = 0
    for (;;) {
      let below = 2 * at + 1
      let child = heap[below]
      if (child === undefined) break
      const right = heap[below + 1]
      if (right !== undefined && right.at < child.at) {
        child = right
        below++
      }
      if (child.at >= last.at) break
      heap[at] = child
      at = below
    }
    heap[at] = last
    return top
  }
}
