/**
 * Tasks that this worker has put off at their very first delivery. One that comes back to it next is as good as new: nobody
 * else can have written about its job, so that it need not be claimed.
 */
import type { JobDelivery } from "../../transport/lift/transport.ts"

/** More at a time, and the oldest are claimed. */
const CAPACITY = 50_000

type Seen = Pick<JobDelivery, "queue" | "sequence" | "deliveries" | "fresh">

export class Untouched {
  /** By task, how often it had been delivered. */
  readonly #tasks = new Map<string, number>()

  /** A delivery is handed back, and nothing was written about it. */
  note(delivery: Seen): void {
    if (!delivery.fresh) return
    const [oldest] = this.#tasks.keys()
    if (this.#tasks.size >= CAPACITY && oldest !== undefined) this.#tasks.delete(oldest)
    this.#tasks.set(keyOf(delivery), delivery.deliveries)
  }

  /** A delivery as it is to be taken here. */
  recognise<A extends Seen>(delivery: A): A {
    if (this.#tasks.size === 0) return delivery
    const key = keyOf(delivery)
    const before = this.#tasks.get(key)
    if (before === undefined) return delivery
    this.#tasks.delete(key)
    return before === delivery.deliveries - 1 ? { ...delivery, fresh: true } : delivery
  }

  /** Somebody has written about jobs that wait in their queue. */
  forget(): void {
    this.#tasks.clear()
  }
}

/** The place of a task in its queue is the same at every delivery, and no other's. */
const keyOf = ({ queue, sequence }: Seen): string => `${sequence} ${queue}`
