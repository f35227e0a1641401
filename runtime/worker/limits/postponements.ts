/**
 * The tasks of a worker that could not run yet and come back, newest last, one per job: why, and until when. A note in the
 * store, one per queue and worker, says until when tasks come back that a limit held up: a worker that ends when its queues
 * are empty must wait for them, and the worker that postponed them may have ended. The note expires automatically.
 */
import * as Schema from "effect/Schema"
import { StoreEntry } from "../../async/store-entry.ts"
import { isPassing, LATE_MS, type Postponement } from "../../cluster/postponements.ts"
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
/** Notes that are read at most: one per queue and worker that postponed a task within the last minutes. */
const MAX_NOTES = 10_000
/** Postponements that are remembered. Beyond that the oldest is forgotten; only the moment of its return is kept. */
const CAPACITY = 10_000
/** First deliveries that are remembered. Beyond that the oldest are forgotten, and are claimed when they come back. */
const FIRST_CAPACITY = 50_000

type Seen = Pick<JobDelivery, "queue" | "sequence" | "deliveries" | "fresh">

export class Postponements {
  readonly #store: Store
  readonly #log: Log
  readonly #byId = new Map<string, Postponement>()
  /** Keys of the limits that hold tasks up; they may show a tenant that the method hides. */
  readonly #limits = new WeakMap<Postponement, string>()
  /** Latest return of a task whose postponement was forgotten for lack of space. */
  #forgottenUntil = 0
  /** New with each start, so that the notes of an earlier worker of the same name count as another worker's. */
  readonly #id = generateId(Date.now())
  /** The time of the last note in the store, per queue. */
  readonly #noted = new Map<string, number>()
  /** Number of deliveries of each task that this worker postponed at its first delivery. */
  readonly #firsts = new Map<string, number>()

  constructor(store: Store, log: Log) {
    this.#store = store
    this.#log = log
  }

  /** Remembers a task that is handed back. */
  note(postponement: Postponement): void {
    this.#byId.delete(postponement.id)
    if (this.#byId.size >= CAPACITY) {
      const oldest = this.#byId.values().next().value
      if (oldest !== undefined) this.#drop(oldest)
    }
    this.#byId.set(postponement.id, postponement)
  }

  #drop(oldest: Postponement): void {
    this.#byId.delete(oldest.id)
    if (isPassing(oldest)) this.#forgottenUntil = Math.max(this.#forgottenUntil, oldest.until)
  }

  /** Remembers a task that a limit held up: it is handed back without a write to its record. */
  noteLimited(postponement: Postponement, delivery: Seen, limit: string): void {
    this.note(postponement)
    this.#limits.set(postponement, limit)
    this.#writeNote(postponement)
    if (!delivery.fresh) return
    const [oldest] = this.#firsts.keys()
    if (this.#firsts.size >= FIRST_CAPACITY && oldest !== undefined) this.#firsts.delete(oldest)
    this.#firsts.set(keyOf(delivery), delivery.deliveries)
  }

  #writeNote({ queue, until }: Postponement): void {
    if (until < (this.#noted.get(queue) ?? Number.NEGATIVE_INFINITY) + STEP_MS) return
    this.#noted.set(queue, until)
    const ttl = Math.max(1_000, until - Date.now() + LATE_MS)
    this.#store.write([NOTES.put(`${queue}/${this.#id}`, until, ttl)]).catch((cause: unknown) => {
      this.#noted.delete(queue)
      this.#log.debug("the note that tasks were postponed could not be stored", { queue, cause: String(cause) })
    })
  }

  /**
   * The delivery, marked as fresh if a limit held the task up here at its very first delivery, the one just before: no
   * other worker can have written its record, so that the job need not be claimed.
   */
  markFresh<A extends Seen>(delivery: A): A {
    if (this.#firsts.size === 0) return delivery
    const key = keyOf(delivery)
    const before = this.#firsts.get(key)
    if (before === undefined) return delivery
    this.#firsts.delete(key)
    return before === delivery.deliveries - 1 ? { ...delivery, fresh: true } : delivery
  }

  /** Marks no more deliveries as fresh, because a record of a queued job may have been written. */
  forgetFirsts(): void {
    this.#firsts.clear()
  }

  /** The job runs, waits here or has ended: its postponement has ended. */
  forget(id: string): void {
    this.#byId.delete(id)
  }

  /** The postponement of one job, or the newest ones of all jobs, `max` at most. */
  list(id: string | undefined, max: number): ReadonlyArray<Postponement> {
    if (id === undefined) return [...this.#byId.values()].slice(-max)
    const postponement = this.#byId.get(id)
    return postponement === undefined ? [] : [postponement]
  }

  /** How many tasks are away now, by queue; `now` in milliseconds since the epoch. */
  byQueue(now: number): Map<string, number> {
    return this.#countBy(now, ({ queue }) => queue)
  }

  /** How many tasks each limit holds up that are away now, by its key. */
  byLimit(now: number): Map<string, number> {
    return this.#countBy(now, (postponement) => this.#limits.get(postponement))
  }

  #countBy(now: number, keyOf: (postponement: Postponement) => string | undefined): Map<string, number> {
    const counts = new Map<string, number>()
    for (const postponement of this.#byId.values()) {
      const key = postponement.until > now ? keyOf(postponement) : undefined
      if (key !== undefined) counts.set(key, (counts.get(key) ?? 0) + 1)
    }
    return counts
  }

  /**
   * When the last task that this worker postponed for a reason that passes returns to one of these queues, in
   * milliseconds since the epoch, unless it has run here since.
   */
  lastReturnAt(queues: ReadonlyArray<string>): number {
    let last = queues.length > 0 ? this.#forgottenUntil : 0
    for (const postponement of this.#byId.values())
      if (isPassing(postponement) && queues.includes(postponement.queue)) last = Math.max(last, postponement.until)
    return last + LATE_MS
  }

  /**
   * Until when tasks of these queues may come back that limits held up on other workers, in milliseconds since the
   * epoch; 0: none will. Fails as the store does.
   */
  async othersUntil(queues: ReadonlyArray<string>): Promise<number> {
    if (queues.length === 0) return 0
    let until = 0
    for (const { name, value } of await NOTES.list(this.#store, MAX_NOTES)) {
      const [queue = "", id] = name.split("/")
      if (id !== this.#id && queues.includes(queue)) until = Math.max(until, value + LATE_MS)
    }
    return until
  }
}

/** The sequence number of a task in its queue is the same at every delivery, and unique. */
const keyOf = ({ queue, sequence }: Seen): string => `${sequence} ${queue}`
