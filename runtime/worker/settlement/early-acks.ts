/**
 * Takes tasks off their queue before their handlers start. From then on no lease tells whether the job's worker lives:
 * each worker keeps, as one entry of the store, a list of the jobs that only it can end, and whoever finds such a list
 * without its worker ends them (`lost-jobs.ts`).
 */
import { Schema } from "effect"
import { StoreEntry } from "../../async/store-entry.ts"
import { generateId } from "../../id.ts"
import type { JobRecord } from "../../protocol/record.ts"
import type { AttemptEnd } from "../../transport/lift/transport.ts"
import type { Store } from "../../transport/store.ts"
import type { InFlight } from "../delivery/in-flight.ts"
import type { SettleResult } from "./settlement-writer.ts"

/** Id of a job, and fence of the delivery that runs it. */
const EarlyJob = Schema.Tuple([Schema.String, Schema.String])
type EarlyJob = typeof EarlyJob.Type

const EarlyList = Schema.Struct({
  worker: Schema.String,
  /** As the worker describes itself: tells it from an earlier one of its name. */
  startedAt: Schema.String,
  jobs: Schema.Array(EarlyJob),
})
export type EarlyList = typeof EarlyList.Type

/** The lists, by an id of their own. */
export const EARLY_LISTS = new StoreEntry("early/", EarlyList)

/**
 * How taking ended. `refused`: another delivery, or a cancellation, has the job. `unlisted`: its task is where it
 * was. `unsure`: the task may be off its queue, and if so the job is ended as one that was lost.
 */
export type EarlyAckResult = "taken" | "refused" | "unlisted" | "unsure"

export interface EarlyAcksOptions {
  readonly store: Store
  readonly worker: string
  readonly startedAt: string
}

/** What is over leaves the list this much later, unless something is added before. */
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

  /** What is listed now, by token of the delivery. */
  get jobs(): ReadonlyMap<string, EarlyJob> {
    return this.#jobs
  }

  /** Lists a job, then stores its record and takes its task off the queue. Never rejects. */
  async take(
    inFlight: InFlight,
    record: JobRecord,
    settle: (settlement: AttemptEnd) => Promise<SettleResult>,
  ): Promise<EarlyAckResult> {
    const { token, fence } = inFlight.delivery
    this.#jobs.set(token, [record.id, fence])
    try {
      await this.#write()
    } catch {
      this.#forget(token)
      return "unlisted"
    }
    // Until here it had its lease, and could be handed back.
    if (inFlight.stop !== undefined) {
      this.#forget(token)
      return "unlisted"
    }
    // Before it is: a lease that cannot be extended because the task was just acked is not lost.
    inFlight.offQueue = true
    const settling = await settle({ token, record, then: { kind: "ack" } })
    if (settling === "lost") return "unsure"
    if (settling !== "superseded") return "taken"
    this.#forget(token)
    return "refused"
  }

  /** The outcome of a job is stored, and what follows it is published. */
  done(token: string): void {
    this.#forget(token)
  }

  /** Takes the list out of the store; what could not be ended stays in it for others. Never rejects. */
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

  /** One write at a time: all who ask while one is under way share the one after it. */
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
