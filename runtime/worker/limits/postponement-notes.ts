/**
 * Notes in the store of when deferred tasks come back. A worker that ends when its queues are empty must wait for them,
 * and the worker that deferred them may be gone by then. There is one note per queue and worker, and it expires by
 * itself.
 */
import * as Schema from "effect/Schema"
import { StoreEntry } from "../../async/store-entry.ts"
import { LATE_MS } from "../../cluster/postponements.ts"
import { generateId } from "../../id.ts"
import type { Log } from "../../log/log.ts"
import type { JobDelivery } from "../../transport/job-store/transport.ts"
import type { Store } from "../../transport/store.ts"

/** The notes: key is the queue and the worker's id, value is the time in milliseconds since the epoch. */
const NOTES = new StoreEntry("put-off/", Schema.Finite)
/**
 * A note is written again only when the time moved by this much, which is within {@link LATE_MS}, so that a note is
 * never too early.
 */
const STEP_MS = 1_000
/** Notes that are read at most: one per queue and worker that deferred a task within the last minutes. */
const MAX_NOTES = 10_000

export class PostponementNotes {
  readonly #store: Store
  readonly #log: Log
  /** New with each start, so that the notes of an earlier worker of the same name count as another worker's. */
  readonly #id = generateId(Date.now())
  /** The time of the last note, per queue. */
  readonly #noted = new Map<string, number>()

  constructor(store: Store, log: Log) {
    this.#store = store
    this.#log = log
  }

  /** Notes that a task of a queue was deferred until then. */
  note(queue: string, until: number): void {
    if (until < (this.#noted.get(queue) ?? Number.NEGATIVE_INFINITY) + STEP_MS) return
    this.#noted.set(queue, until)
    const ttl = Math.max(1_000, until - Date.now() + LATE_MS)
    this.#store.write([NOTES.put(`${queue}/${this.#id}`, until, ttl)]).catch((cause: unknown) => {
      this.#noted.delete(queue)
      this.#log.debug("the note that tasks were deferred could not be stored", { queue, cause: String(cause) })
    })
  }

  /**
   * Until when tasks of these queues may come back that other workers deferred, in milliseconds since the epoch; 0:
   * none will. Fails as the store does.
   */
  async until(queues: ReadonlyArray<string>): Promise<number> {
    let until = 0
    for (const { name, value } of await NOTES.list(this.#store, MAX_NOTES)) {
      const [queue = "", id] = name.split("/")
      if (id !== this.#id && queues.includes(queue)) until = Math.max(until, value + LATE_MS)
    }
    return until
  }
}

/** Deferred tasks that are remembered. Beyond that the oldest are forgotten, and are claimed when they come back. */
const CAPACITY = 50_000

type Seen = Pick<JobDelivery, "queue" | "sequence" | "deliveries" | "fresh">

/**
 * Tasks that this worker deferred at their very first delivery. When such a task comes back to this worker next, no
 * other worker can have written its record, so that it need not be claimed.
 */
export class FirstPostponements {
  /** Number of deliveries, per task. */
  readonly #tasks = new Map<string, number>()

  /** Remembers a first delivery that is given back without a write to its record. */
  note(delivery: Seen): void {
    if (!delivery.fresh) return
    const [oldest] = this.#tasks.keys()
    if (this.#tasks.size >= CAPACITY && oldest !== undefined) this.#tasks.delete(oldest)
    this.#tasks.set(keyOf(delivery), delivery.deliveries)
  }

  /** The delivery, marked as fresh if this worker deferred the one just before it. */
  markFresh<A extends Seen>(delivery: A): A {
    if (this.#tasks.size === 0) return delivery
    const key = keyOf(delivery)
    const before = this.#tasks.get(key)
    if (before === undefined) return delivery
    this.#tasks.delete(key)
    return before === delivery.deliveries - 1 ? { ...delivery, fresh: true } : delivery
  }

  /** Forgets all, because a record of a queued job may have been written. */
  forget(): void {
    this.#tasks.clear()
  }
}

/** The sequence number of a task in its queue is the same at every delivery, and unique. */
const keyOf = ({ queue, sequence }: Seen): string => `${sequence} ${queue}`
