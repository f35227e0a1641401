/** One connection, with the calls that cases make. Each has a deadline, and fails with the name of what it waited for. */

import type { JobPosting } from "../../runtime/protocol/message.ts"
import type { JobRecord } from "../../runtime/protocol/record.ts"
import type {
  ClaimAnswer,
  Decision,
  DecisionAnswer,
  Found,
  JobDelivery,
  SettleAnswer,
  Settlement,
  TakeOptions,
  Transport,
} from "../../runtime/transport/job-store/transport.ts"
import type { Receipt } from "../../runtime/transport/mod.ts"
import { BrokenPromise, check, equal, GaveUp } from "./check.ts"
import type { Context } from "./context.ts"
import { idOf, recordOf } from "./task.ts"

type Ending = Pick<Settlement, "record" | "followUps">

export class Peer {
  readonly #context: Context
  #transport: Transport | undefined

  constructor(context: Context) {
    this.#context = context
  }

  use(transport: Transport): void {
    this.#transport = transport
  }

  get transport(): Transport {
    return present(this.#transport, "a connection")
  }

  async close(): Promise<void> {
    if (this.#transport !== undefined) await this.#context.within("close", this.#transport.close())
  }

  // ── Tasks ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  async receipts(postings: ReadonlyArray<JobPosting>): Promise<ReadonlyArray<Receipt>> {
    const receipts = await this.#context.within(
      `receipts for ${postings.length} tasks`,
      this.transport.jobs.publish(postings),
    )
    equal(receipts.length, postings.length, "number of receipts")
    return receipts
  }

  /** Publishes tasks, and fails unless all of them are stored. */
  async publish(...postings: ReadonlyArray<JobPosting>): Promise<void> {
    const receipts = await this.receipts(postings)
    receipts.forEach((receipt, at) => {
      check(receipt.status === "stored", `task ${at} must be stored, it was ${describe(receipt)}`)
    })
  }

  /** Takes once: by default one task, without waiting. */
  async take(
    queues: string | ReadonlyArray<string>,
    request: Partial<TakeOptions> & { readonly signal?: AbortSignal } = {},
  ): Promise<ReadonlyArray<JobDelivery>> {
    const { signal = never, ...rest } = request
    const full = { queues: typeof queues === "string" ? [queues] : queues, max: 1, wait: 0, ...rest }
    const deliveries = await this.#context.within(
      `a take that waits ${full.wait} ms`,
      this.transport.jobs.take(full, signal),
      full.wait + 5_000,
    )
    check(deliveries.length <= full.max, `a take of ${full.max} tasks brought ${deliveries.length}`)
    return deliveries
  }

  /** The next task of a queue. Fails if none comes in time. */
  async one(queue: string, wait = 5_000): Promise<JobDelivery> {
    const [delivery] = await this.all(queue, 1, wait)
    return present(delivery, "a delivery")
  }

  /** The next `count` tasks of the queues, in one or several takes. Fails if fewer come in time. */
  async all(queues: string | ReadonlyArray<string>, count: number, wait = 5_000): Promise<ReadonlyArray<JobDelivery>> {
    const deliveries: Array<JobDelivery> = []
    const end = Date.now() + wait
    while (deliveries.length < count) {
      const left = end - Date.now()
      if (left <= 0) throw new GaveUp(`${count} tasks must come within ${wait} ms, ${deliveries.length} came`)
      deliveries.push(...(await this.take(queues, { max: Math.min(count - deliveries.length, 256), wait: left })))
    }
    return deliveries
  }

  /** Fails if a task comes from these queues within a while. */
  async none(queues: string | ReadonlyArray<string>, why: string, ms = this.#context.quiet): Promise<void> {
    const deliveries = await this.take(queues, { max: 10, wait: ms })
    equal(deliveries.map(idOf), [], `tasks that come although ${why}`)
  }

  async begin(delivery: JobDelivery, posting: JobPosting, worker = "kit"): Promise<ClaimAnswer> {
    const { id, run, retries } = posting
    const claim = { token: delivery.token, id, run, retries, worker, at: Date.now(), posting }
    const claimed = await this.#context.within(`the claim of ${id}`, this.transport.jobs.claim([claim]))
    equal(claimed.length, 1, "number of answers to one claim")
    return present(claimed[0], "an answer")
  }

  /** Begins an attempt, and fails unless it starts. Returns the record before the claim. */
  async begun(delivery: JobDelivery, posting: JobPosting, worker = "kit"): Promise<JobRecord | undefined> {
    const claimed = await this.begin(delivery, posting, worker)
    check(claimed.status === "started", `the claim must succeed, it was ${describe(claimed)}`)
    return claimed.record
  }

  async endAll(...ends: ReadonlyArray<Settlement>): Promise<ReadonlyArray<SettleAnswer>> {
    const ended = await this.#context.within(`${ends.length} ends`, this.transport.jobs.settle(ends))
    equal(ended.length, ends.length, "number of answers to ends")
    return ended
  }

  /** Ends an attempt with an ack, and returns the answer. */
  async ack(delivery: JobDelivery, ending: Ending = {}): Promise<SettleAnswer> {
    const [ended] = await this.endAll({ token: delivery.token, ...ending, then: { kind: "ack" } })
    return present(ended, "an answer")
  }

  /** Ends an attempt with an ack, and fails unless it is ended. */
  async acked(delivery: JobDelivery, ending: Ending = {}): Promise<void> {
    const ended = await this.ack(delivery, ending)
    check(ended.status === "ended", `the ack of ${idOf(delivery)} must be ended, it was ${describe(ended)}`)
  }

  /** Ends an attempt as succeeded, and returns the stored record. */
  async succeed(delivery: JobDelivery, posting: JobPosting, fields: Partial<JobRecord> = {}): Promise<JobRecord> {
    const record = recordOf(posting, "succeeded", { fence: delivery.fence, result: "done", ...fields })
    await this.acked(delivery, { record })
    return record
  }

  /** Ends an attempt with a release, and fails unless it is ended. */
  async release(delivery: JobDelivery, delay = 0, ending: Ending = {}): Promise<void> {
    const [ended] = await this.endAll({ token: delivery.token, ...ending, then: { kind: "hand-back", delay } })
    check(ended?.status === "ended", `the release of ${idOf(delivery)} must be ended, it was ${describe(ended)}`)
  }

  /** Extends leases: whether each delivery still has its task. */
  async extend(...tokens: ReadonlyArray<string>): Promise<ReadonlyArray<boolean>> {
    return this.#context.within("an extension", this.transport.jobs.extend(tokens))
  }

  // ── Records ───────────────────────────────────────────────────────────────────────────────────────────────────────

  async lookup(id: string): Promise<Found | undefined> {
    return this.#context.within(`find(${id})`, this.transport.jobs.find(id))
  }

  /** The record of a job. Fails if there is none. */
  async found(id: string): Promise<Found> {
    return present(await this.lookup(id), `a record of ${id}`)
  }

  async find(id: string): Promise<JobRecord> {
    return (await this.found(id)).record
  }

  async decide(change: Decision): Promise<DecisionAnswer> {
    const [changed] = await this.#context.within(`the change of ${change.id}`, this.transport.jobs.decide([change]))
    return present(changed, "an answer")
  }

  /** Decides about a job, and fails unless the decision is stored. */
  async decided(change: Decision): Promise<void> {
    const changed = await this.decide(change)
    check(changed.status === "decided", `the record of ${change.id} must be changed, it was ${describe(changed)}`)
  }
}

const never = new AbortController().signal

/** Describes an answer for the message of a failure. */
export const describe = (answer: { readonly status: string } | undefined): string => {
  if (answer === undefined) return "nothing"
  const error = "error" in answer && answer.error instanceof Error ? answer.error : undefined
  if (error === undefined) return answer.status
  return `${answer.status} (${"reason" in error ? `${String(error.reason)}: ` : ""}${error.message})`
}

export const present = <T>(value: T | undefined, what: string): T => {
  if (value === undefined) throw new BrokenPromise(`expected ${what}, found nothing`)
  return value
}
