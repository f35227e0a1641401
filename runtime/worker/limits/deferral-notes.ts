/**
 * Until when tasks come back that a limit has put off: what a worker that ends when nothing is left must wait for. The worker
 * that has put them off may be gone by then, so each leaves a note in the store, one per queue, which lapses by itself.
 */
import { Schema } from "effect"
import { StoreEntry } from "../../async/store-entry.ts"
import { LATE_MS } from "../../cluster/deferrals.ts"
import { generateId } from "../../id.ts"
import type { Log } from "../../log/log.ts"
import type { JobDelivery } from "../../transport/lift/transport.ts"
import type { Store } from "../../transport/store.ts"

/** By queue and the worker's id, until when: in milliseconds since the epoch. */
const NOTES = new StoreEntry("put-off/", Schema.Finite)
/** A note is written again when it is about so much later: within {@link LATE_MS}, so that it is never too early. */
const STEP_MS = 1_000
/** Notes that are looked at: one per queue and worker that has put something off within the last minutes. */
const MOST_NOTES = 10_000

export class DeferralNotes {
  readonly #store: Store
  readonly #log: Log
  /** New with each start: what a worker of the same name has put off before this one is another's. */
  readonly #id = generateId(Date.now())
  /** By queue, until when the last note says. */
  readonly #noted = new Map<string, number>()

  constructor(store: Store, log: Log) {
    this.#store = store
    this.#log = log
  }

  /** A task of a queue was put off until then. */
  note(queue: string, until: number): void {
    if (until < (this.#noted.get(queue) ?? Number.NEGATIVE_INFINITY) + STEP_MS) return
    this.#noted.set(queue, until)
    const ttl = Math.max(1_000, until - Date.now() + LATE_MS)
    this.#store.write([NOTES.put(`${queue}/${this.#id}`, until, ttl)]).catch((cause: unknown) => {
      this.#noted.delete(queue)
      this.#log.debug("nobody else knows for now that tasks were put off", { queue, cause: String(cause) })
    })
  }

  /**
   * Until when tasks of some queues may come that others have put off, in milliseconds since the epoch; 0: none. Fails as
   * the store does.
   */
  async until(queues: ReadonlyArray<string>): Promise<number> {
    let until = 0
    for (const { name, value } of await NOTES.list(this.#store, MOST_NOTES)) {
      const [queue = "", id] = name.split("/")
      if (id !== this.#id && queues.includes(queue)) until = Math.max(until, value + LATE_MS)
    }
    return until
  }
}

/** More at a time, and the oldest are claimed. */
const CAPACITY = 50_000

type Seen = Pick<JobDelivery, "queue" | "sequence" | "deliveries" | "fresh">

export class FirstDeferrals {
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
  markFresh<A extends Seen>(delivery: A): A {
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
