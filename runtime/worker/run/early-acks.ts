/**
 * Acknowledges tasks before their handlers start. From then on no lease shows whether the job's worker is alive. Each
 * worker therefore keeps a list of these jobs as an entry of the store, and another worker that finds such a list
 * without a living worker fails the jobs (`lost-jobs.ts`).
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { StoreEntry } from "../../async/store-entry.ts"
import { generateId } from "../../id.ts"
import type { JobRecord } from "../../protocol/record.ts"
import type { Store } from "../../transport/store.ts"
import type { ActiveDelivery } from "../active-delivery.ts"
import type { SettlementStore } from "./settlement-store.ts"

/** Id of a job, and the fence of the delivery that runs it. */
const EarlyJob = Schema.Tuple([Schema.String, Schema.String])
type EarlyJob = typeof EarlyJob.Type

const EarlyList = Schema.Struct({
  worker: Schema.String,
  /** Start of the worker, which distinguishes it from an earlier worker of the same name. */
  startedAt: Schema.String,
  jobs: Schema.Array(EarlyJob),
})
export type EarlyList = typeof EarlyList.Type

/** The lists in the store, each under an id of its own. */
export const EARLY_LISTS = new StoreEntry("early/", EarlyList)

/**
 * Result of an early ack. `refused`: another delivery or a cancellation has the job. `unlisted`: nothing changed, the
 * task is still queued. `unsure`: the task may be off its queue; if so, the job is failed as a lost one.
 */
export type EarlyAckResult = "taken" | "refused" | "unlisted" | "unsure"

export interface EarlyAcksOptions {
  readonly store: Store
  readonly worker: string
  readonly startedAt: string
}

/** Delay before ended jobs are removed from the list in the store, unless the list is written sooner. */
const TIDY_MS = 1_000

export class EarlyAcks {
  /** Key of the list in the store. */
  readonly key: string
  readonly #name = generateId()
  readonly #options: EarlyAcksOptions
  readonly #jobs = new Map<string, EarlyJob>()
  #writing: Promise<void> = Promise.resolve()
  #next: Promise<void> | undefined
  #tidying: ReturnType<typeof setTimeout> | undefined
  #listed = false

  constructor(options: EarlyAcksOptions) {
    this.#options = options
    this.key = EARLY_LISTS.key(this.#name)
  }

  /** The listed jobs, by token of the delivery. */
  get jobs(): ReadonlyMap<string, EarlyJob> {
    return this.#jobs
  }

  /** Lists a job, then stores its record and takes its task off the queue. */
  readonly take = Effect.fnUntraced(function* (
    this: EarlyAcks,
    active: ActiveDelivery,
    record: JobRecord,
    store: Pick<SettlementStore, "store">,
  ): Effect.fn.Return<EarlyAckResult> {
    const { token, fence } = active.delivery
    this.#jobs.set(token, [record.id, fence])
    const isListed = yield* Effect.promise(() =>
      this.#write().then(
        () => true,
        () => false,
      ),
    )
    // The delivery may have been ended from outside, or replaced by a newer one of its task. That has its lease, and can be
    // given back.
    if (!isListed || active.stop !== undefined || active.delivery.token !== token) {
      this.#forget(token)
      return "unlisted"
    }
    // Set before the ack, so that a lease that cannot be extended because of it does not count as lost.
    active.offQueue = true
    const stored = yield* store.store({ token, record, then: { kind: "ack" } })
    if (stored === "lost") return "unsure"
    if (stored !== "superseded") return "taken"
    this.#forget(token)
    return "refused"
  })

  /** Removes a job whose outcome and follow-ups are stored. */
  done(token: string): void {
    this.#forget(token)
  }

  /** Removes the list from the store. Jobs that could not be ended stay in it for other workers. Never rejects. */
  async end(): Promise<void> {
    clearTimeout(this.#tidying)
    if (this.#listed) await this.#write().catch(() => undefined)
  }

  #forget(token: string): void {
    if (!this.#jobs.delete(token)) return
    this.#tidying ??= setTimeout(() => {
      this.#tidying = undefined
      void this.#write().catch(() => undefined)
    }, TIDY_MS)
    this.#tidying.unref()
  }

  /** One write at a time: all requests during a write share the next one. */
  #write(): Promise<void> {
    this.#next ??= this.#writing
      .catch(() => undefined)
      .then(() => {
        this.#next = undefined
        this.#writing = this.#put()
        return this.#writing
      })
    return this.#next
  }

  async #put(): Promise<void> {
    const { store, worker, startedAt } = this.#options
    if (this.#jobs.size === 0) {
      if (this.#listed) await store.write([EARLY_LISTS.remove(this.#name)])
      this.#listed = false
      return
    }
    const list: EarlyList = { worker, startedAt, jobs: [...this.#jobs.values()] }
    this.#listed = true
    await store.write([EARLY_LISTS.put(this.#name, list)])
  }
}
