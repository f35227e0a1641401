/** One connection, with the verbs that cases are written in. Each verb has a deadline and fails with what it awaited. */

import type { AddressedTask } from "../../runtime/protocol/message.ts"
import type { JobRecord } from "../../runtime/protocol/record.ts"
import type {
  AttemptEnd,
  Decision,
  DecisionAnswer,
  EndAnswer,
  Found,
  JobDelivery,
  StartAnswer,
  TakeOptions,
  Transport,
} from "../../runtime/transport/lift/transport.ts"
import type { Receipt } from "../../runtime/transport/mod.ts"
import { BrokenPromise, check, equal } from "./check.ts"
import type { Context } from "./context.ts"
import { idOf, recordOf } from "./task.ts"

type Ending = Pick<AttemptEnd, "record" | "followUps">

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

  async receipts(postings: ReadonlyArray<AddressedTask>): Promise<ReadonlyArray<Receipt>> {
    const receipts = await this.#context.within(
      `receipts for ${postings.length} tasks`,
      this.transport.jobs.publish(postings),
    )
    equal(receipts.length, postings.length, "number of receipts")
    return receipts
  }

  /** Publishes tasks, all of which must be stored. */
  async publish(...postings: ReadonlyArray<AddressedTask>): Promise<void> {
    const receipts = await this.receipts(postings)
    receipts.forEach((receipt, at) => {
      check(receipt.status === "stored", `task ${at} must be stored, it was ${describe(receipt)}`)
    })
  }

  /** One pull, of one task from one queue unless said otherwise. */
  async pull(
    queues: string | ReadonlyArray<string>,
    request: Partial<TakeOptions> & { readonly signal?: AbortSignal } = {},
  ): Promise<ReadonlyArray<JobDelivery>> {
    const { signal = never, ...rest } = request
    const full = { queues: typeof queues === "string" ? [queues] : queues, max: 1, wait: 0, ...rest }
    const deliveries = await this.#context.within(
      `a pull that waits ${full.wait} ms`,
      this.transport.jobs.take(full, signal),
      full.wait + 5_000,
    )
    check(deliveries.length <= full.max, `a pull of ${full.max} tasks brought ${deliveries.length}`)
    return deliveries
  }

  /** The next task of a queue, which must come. */
  async one(queue: string, wait = 5_000): Promise<JobDelivery> {
    const [delivery] = await this.all(queue, 1, wait)
    return present(delivery, "a delivery")
  }

  /** The next tasks of a queue, as many as said, which must come, in as many pulls as it takes. */
  async all(queues: string | ReadonlyArray<string>, count: number, wait = 5_000): Promise<ReadonlyArray<JobDelivery>> {
    const deliveries: Array<JobDelivery> = []
    const end = Date.now() + wait
    while (deliveries.length < count) {
      const left = end - Date.now()
      check(left > 0, `${count} tasks must come within ${wait} ms, ${deliveries.length} came`)
      deliveries.push(...(await this.pull(queues, { max: Math.min(count - deliveries.length, 256), wait: left })))
    }
    return deliveries
  }

  /** Nothing may come from these queues for a while. */
  async none(queues: string | ReadonlyArray<string>, why: string, ms = this.#context.quiet): Promise<void> {
    const deliveries = await this.pull(queues, { max: 10, wait: ms })
    equal(deliveries.map(idOf), [], `tasks that come although ${why}`)
  }

  async claim(delivery: JobDelivery, posting: AddressedTask, worker = "kit"): Promise<StartAnswer> {
    const { id, run, retries } = posting
    const claim = { token: delivery.token, id, run, retries, worker, at: Date.now(), posting }
    const claimed = await this.#context.within(`the claim of ${id}`, this.transport.jobs.begin([claim]))
    equal(claimed.length, 1, "number of answers to one claim")
    return present(claimed[0], "an answer")
  }

  /** A claim that must succeed: the record as it was before. */
  async claimed(delivery: JobDelivery, posting: AddressedTask, worker = "kit"): Promise<JobRecord | undefined> {
    const claimed = await this.claim(delivery, posting, worker)
    check(claimed.status === "started", `the claim must succeed, it was ${describe(claimed)}`)
    return claimed.record
  }

  async settle(...settlements: ReadonlyArray<AttemptEnd>): Promise<ReadonlyArray<EndAnswer>> {
    const settled = await this.#context.within(
      `${settlements.length} settlements`,
      this.transport.jobs.end(settlements),
    )
    equal(settled.length, settlements.length, "number of answers to settlements")
    return settled
  }

  /** Takes a task off the queue: what becomes of it. */
  async ack(delivery: JobDelivery, ending: Ending = {}): Promise<EndAnswer> {
    const [settled] = await this.settle({ token: delivery.token, ...ending, then: { kind: "ack" } })
    return present(settled, "an answer")
  }

  /** Acks, and it must be settled. */
  async end(delivery: JobDelivery, ending: Ending = {}): Promise<void> {
    const settled = await this.ack(delivery, ending)
    check(settled.status === "ended", `the ack of ${idOf(delivery)} must be settled, it was ${describe(settled)}`)
  }

  /** Acks as succeeded, and it must be settled: the record stored. */
  async succeed(delivery: JobDelivery, posting: AddressedTask, fields: Partial<JobRecord> = {}): Promise<JobRecord> {
    const record = recordOf(posting, "succeeded", { fence: delivery.fence, result: "done", ...fields })
    await this.end(delivery, { record })
    return record
  }

  /** Hands a task back, and it must be settled. */
  async release(delivery: JobDelivery, delay = 0, ending: Ending = {}): Promise<void> {
    const [settled] = await this.settle({ token: delivery.token, ...ending, then: { kind: "release", delay } })
    check(settled?.status === "ended", `the release of ${idOf(delivery)} must be settled, it was ${describe(settled)}`)
  }

  /** What a token is still worth. */
  async extend(...tokens: ReadonlyArray<string>): Promise<ReadonlyArray<boolean>> {
    return this.#context.within("an extension", this.transport.jobs.extend(tokens))
  }

  // ── Records ───────────────────────────────────────────────────────────────────────────────────────────────────────

  async lookup(id: string): Promise<Found | undefined> {
    return this.#context.within(`find(${id})`, this.transport.jobs.find(id))
  }

  /** The record of a job, which must be there. */
  async found(id: string): Promise<Found> {
    return present(await this.lookup(id), `a record of ${id}`)
  }

  async find(id: string): Promise<JobRecord> {
    return (await this.found(id)).record
  }

  async change(change: Decision): Promise<DecisionAnswer> {
    const [changed] = await this.#context.within(`the change of ${change.id}`, this.transport.jobs.decide([change]))
    return present(changed, "an answer")
  }

  /** Changes a record, and it must be changed. */
  async changed(change: Decision): Promise<void> {
    const changed = await this.change(change)
    check(changed.status === "decided", `the record of ${change.id} must be changed, it was ${describe(changed)}`)
  }
}

const never = new AbortController().signal

/** An answer in the words of the contract. */
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
