/** Stores submitted tasks, with one result each: a task without `after` goes to its queue, one with `after` is deferred. */

import { Result } from "effect"
import type { EventSender } from "../../cluster/events.ts"
import type { Connection } from "../../connection/connection.ts"
import { asTransportError, CallboardError } from "../../errors.ts"
import { isDeferred } from "../../jobs/dependencies/checking.ts"
import { type Deferred, defer } from "../../jobs/dependencies/defer.ts"
import { publishFailed, type Receipt, type SubmitResult } from "../../jobs/receipt.ts"
import { isSameTask } from "../../jobs/same-task.ts"
import type { Redaction } from "../../log/redaction.ts"
import { taskEventFields } from "../../log/task-event-fields.ts"
import { parseTask } from "../../protocol/headers.ts"
import type { AddressedTask } from "../../protocol/message.ts"

/** Tasks that go to the transport at a time. */
const CHUNK = 1_000

export class Publisher {
  readonly #connection: Connection
  readonly #events: EventSender
  readonly #methodOf: MethodOf

  constructor(connection: Connection, events: EventSender, methodOf: MethodOf) {
    this.#connection = connection
    this.#events = events
    this.#methodOf = methodOf
  }

  /**
   * One answer per posting, in order. `known`: ids that may have been submitted before. `now`: when they were planned.
   */
  async publish(
    postings: ReadonlyArray<AddressedTask>,
    known: ReadonlySet<string>,
    now: number,
  ): Promise<ReadonlyArray<SubmitResult>> {
    const results: Array<SubmitResult> = []
    for (let from = 0; from < postings.length; from += CHUNK) {
      results.push(...(await this.#publish(postings.slice(from, from + CHUNK), known, now)))
    }
    return results
  }

  async #publish(
    postings: ReadonlyArray<AddressedTask>,
    known: ReadonlySet<string>,
    now: number,
  ): Promise<ReadonlyArray<SubmitResult>> {
    const fresh: Array<AddressedTask> = []
    const waiting: Array<AddressedTask> = []
    const results = new Map<AddressedTask, SubmitResult>()
    // In parallel: a thousand round trips in sequence would outlast the deadline of a request.
    const before = await Promise.all(
      postings.map((each) => (known.has(each.id) ? resultOfEarlier(this.#connection, each, "none") : undefined)),
    )
    for (const [at, posting] of postings.entries()) {
      const earlier = before[at]
      if (earlier !== undefined) results.set(posting, earlier)
      else if (isDeferred(posting.message)) waiting.push(posting)
      else fresh.push(posting)
    }
    await this.#enqueue(fresh, known, now, results)
    if (waiting.length > 0) await this.#defer(waiting, results)
    return postings.map((posting) => results.get(posting) ?? publishFailed(posting.id, undefined))
  }

  async #enqueue(
    postings: ReadonlyArray<AddressedTask>,
    known: ReadonlySet<string>,
    now: number,
    results: Map<AddressedTask, SubmitResult>,
  ): Promise<void> {
    const { durability } = this.#connection.transport.capabilities
    const receipts = await this.#connection.jobs.publish(postings).catch((cause: unknown) => {
      const error = asTransportError(cause)
      return postings.map(() => ({ status: "failed" as const, error }))
    })
    for (const [at, posting] of postings.entries()) {
      const receipt = receipts[at]
      if (receipt === undefined || receipt.status === "failed") {
        results.set(posting, publishFailed(posting.id, receipt?.error))
        continue
      }
      const isDuplicate = receipt.status === "duplicate"
      // Another submission of this id may have come in between: it must have been the same.
      const raced =
        isDuplicate && known.has(posting.id) ? await resultOfEarlier(this.#connection, posting, "unknown") : undefined
      const accepted: Receipt = {
        id: posting.id,
        state: posting.due !== undefined && posting.due > now ? "scheduled" : "queued",
        durability,
        ...(isDuplicate ? { duplicate: true as const } : {}),
      }
      results.set(posting, raced ?? accepted)
      if (this.#events.enabled && !isDuplicate) await emitTaskSent(this.#events, posting, this.#methodOf)
    }
  }

  /** Stores the tasks with `after`, last, because their parents may be among the other tasks. */
  async #defer(postings: ReadonlyArray<AddressedTask>, results: Map<AddressedTask, SubmitResult>): Promise<void> {
    const { durability } = this.#connection.transport.capabilities
    const accepted = [...results.values()].flatMap((result) => (result instanceof CallboardError ? [] : [result.id]))
    const deferred = await defer(this.#connection, postings, new Set(accepted))
    for (const [at, posting] of postings.entries()) {
      const { id } = posting
      const stored: Deferred | undefined = deferred[at]
      if (stored === "deferred") {
        results.set(posting, { id, state: "deferred", durability })
        if (this.#events.enabled) await emitTaskSent(this.#events, posting, this.#methodOf)
      } else if (stored === "conflict") {
        results.set(
          posting,
          (await resultOfEarlier(this.#connection, posting, "unknown")) ?? publishFailed(id, undefined),
        )
      } else results.set(posting, stored instanceof CallboardError ? stored : publishFailed(id, stored))
    }
  }
}

/**
 * The result of a task whose id may have been submitted before: `undefined` where there is no such job. Never rejects.
 * `outcome` is that of a look-up that fails: `none` as long as nothing was published.
 */
export const resultOfEarlier = async (
  connection: Connection,
  posting: AddressedTask,
  outcome: "none" | "unknown",
): Promise<SubmitResult | undefined> => {
  let found: Awaited<ReturnType<Connection["jobs"]["find"]>>
  try {
    found = await connection.jobs.find(posting.id)
  } catch (cause) {
    return publishFailed(posting.id, asTransportError(cause), outcome)
  }
  if (found === undefined) return undefined
  const { record } = found
  if (!isSameTask(record, posting) || record.tombstone) {
    return new CallboardError("job-exists", `there is another job with the id ${posting.id}`, {
      id: posting.id,
      field: "id",
    })
  }
  const { durability } = connection.transport.capabilities
  return { id: posting.id, state: record.state, durability, duplicate: true }
}

/** Looks up how a method's arguments may be shown; `undefined` where the method is unknown. */
export type MethodOf = (task: string, meth: string | null) => Promise<Redaction | undefined>

/** Sends the event `task-sent` for an accepted task. Never fails, since a lost event must not fail the submission. */
export const emitTaskSent = async (
  events: EventSender,
  { message, queue }: AddressedTask,
  methodOf: MethodOf,
): Promise<void> => {
  const parsed = parseTask(message)
  if (Result.isFailure(parsed)) return
  const task = parsed.success
  const method = await methodOf(task.task, task.meth).catch(() => undefined)
  // As in Celery: sent through the default exchange, where the routing key is the name of the queue.
  events.emit("task-sent", { ...taskEventFields(task, message, method), queue, exchange: "", routing_key: queue })
}
