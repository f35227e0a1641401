/** Gathers the items that are added in one turn of the event loop, and hands them on together. */
export class Turn<In> {
  readonly #handOn: (items: ReadonlyArray<In>) => void
  readonly #max: number
  #waiting: Array<In> = []
  /** Whether the items are about to be handed on, at the end of this turn. */
  #scheduled = false

  /** `handOn` must not throw. It gets at most `max` items. */
  constructor(handOn: (items: ReadonlyArray<In>) => void, max = 512) {
    this.#handOn = handOn
    this.#max = max
  }

  /**
   * `alone`: the caller expects no other item in this turn, so that the item is handed on at once. That is done once per
   * turn: items that follow one another without a turn in between would keep timers and sockets waiting.
   */
  add(item: In, alone = false): void {
    const now = alone && !this.#scheduled
    if (!this.#scheduled) {
      this.#scheduled = true
      // No timer: an item is handed on at the end of this turn at the latest.
      setImmediate(() => {
        this.#scheduled = false
        this.#end()
      })
    }
    this.#waiting.push(item)
    if (now || this.#waiting.length >= this.#max) this.#end()
  }

  #end(): void {
    const items = this.#waiting
    if (items.length === 0) return
    this.#waiting = []
    this.#handOn(items)
  }
}
