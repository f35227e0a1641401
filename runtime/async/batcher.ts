/**
 * Gathers the items that are added in one turn of the event loop into one call: a round trip costs the same for one
 * item as for many.
 */
import { Turn } from "./turn.ts"

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
        if (answer === undefined) reject(new Error("the transport gave fewer answers than it was asked"))
        else resolve(answer)
      }
    } catch (cause) {
      for (const { reject } of batch) reject(cause)
    }
  }
}
