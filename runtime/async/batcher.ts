/**
 * Gathers the items that are added in one turn of the event loop into one call: a round trip costs the same for one
 * item as for many.
 */

/** An item, with the functions that take its answer, or why there is none: one of the two is called, once. */
export interface Batched<In, Out> {
  readonly item: In
  resolve(out: Out): void
  reject(cause: unknown): void
}

export class Batcher<In, Out> {
  readonly #send: (items: ReadonlyArray<In>) => Promise<ReadonlyArray<Out>>
  readonly #max: number
  #waiting: Array<Batched<In, Out>> = []
  /** Whether the items are about to be sent, at the end of this turn. */
  #scheduled = false

  /** `send` answers item by item, in order. At most `max` items go into one call. */
  constructor(send: (items: ReadonlyArray<In>) => Promise<ReadonlyArray<Out>>, max = 512) {
    this.#send = send
    this.#max = max
  }

  /** Resolves with the answer for this item; rejects as the call that carried it did. */
  add(item: In): Promise<Out> {
    return new Promise<Out>((resolve, reject) => this.push({ item, resolve, reject }))
  }

  /**
   * Like {@link add}, without a promise. What its callbacks throw is an unhandled rejection. `alone`: the caller
   * expects no other item in this turn, so that the item is sent at once. That is done once per turn: items that follow one
   * another without a turn in between would keep timers and sockets waiting.
   */
  push(batched: Batched<In, Out>, alone = false): void {
    const now = alone && !this.#scheduled
    if (!this.#scheduled) {
      this.#scheduled = true
      // No timer: an item is sent at the end of this turn at the latest.
      setImmediate(() => {
        this.#scheduled = false
        this.#flush()
      })
    }
    this.#waiting.push(batched)
    if (now || this.#waiting.length >= this.#max) this.#flush()
  }

  /** A transport that throws instead of rejecting must not end the process. */
  async #ask(items: ReadonlyArray<In>): Promise<ReadonlyArray<Out>> {
    return await this.#send(items)
  }

  #flush(): void {
    const batch = this.#waiting
    if (batch.length === 0) return
    this.#waiting = []
    this.#ask(batch.map((entry) => entry.item)).then(
      (answers) =>
        callEach(batch, (entry, at) => {
          const answer = answers[at]
          if (answer === undefined) entry.reject(new Error("the transport gave fewer answers than it was asked"))
          else entry.resolve(answer)
        }),
      (cause: unknown) => callEach(batch, (entry) => entry.reject(cause)),
    )
  }
}

/**
 * Calls back for all items. An error of a callback is thrown only after all were called: otherwise the deliveries of
 * the others would never end.
 */
const callEach = <A>(items: ReadonlyArray<A>, call: (item: A, at: number) => void): void => {
  const thrown: Array<unknown> = []
  items.forEach((item, at) => {
    try {
      call(item, at)
    } catch (cause) {
      thrown.push(cause)
    }
  })
  if (thrown.length > 0) throw thrown[0]
}
