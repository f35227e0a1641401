/**
 * Gathers the items that are added in one turn of the event loop, to be sent in one call: a round trip costs the same for
 * one item as for many.
 */
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

/** An item, with the functions that take its answer, or why there is none: one of the two is called, once. */
interface Batched<In, Out> {
  readonly item: In
  readonly resolve: (out: Out) => void
  readonly reject: (cause: unknown) => void
}

export class Batcher<In, Out> {
  readonly #send: (items: ReadonlyArray<In>) => Promise<ReadonlyArray<Out>>
  readonly #turn: Turn<Batched<In, Out>>

  /** `send` answers item by item, in order. At most `max` items go into one call. */
  constructor(send: (items: ReadonlyArray<In>) => Promise<ReadonlyArray<Out>>, max = 512) {
    this.#send = send
    this.#turn = new Turn((batch) => void this.#sendAll(batch), max)
  }

  /** Resolves with the answer for this item; rejects as the call that carried it did. */
  add(item: In): Promise<Out> {
    return new Promise<Out>((resolve, reject) => this.#turn.add({ item, resolve, reject }))
  }

  async #sendAll(batch: ReadonlyArray<Batched<In, Out>>): Promise<void> {
    try {
      const answers = await this.#send(batch.map(({ item }) => item))
      for (const [at, { resolve, reject }] of batch.entries()) {
        const answer = answers[at]
        if (answer === undefined) reject(new Error("the transport returned too few answers"))
        else resolve(answer)
      }
    } catch (cause) {
      for (const { reject } of batch) reject(cause)
    }
  }
}
