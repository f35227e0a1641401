/**
 * Jobs that wait for other jobs. What the end of one means to those that wait for it, and what becomes of them. Pure.
 *
 * As in RQ: a success is what is waited for, and with `allowFailure` a failure will do; who was cancelled satisfies
 * nobody, because somebody did not want what comes after it either. A failed or cancelled job may run again, and so those
 * that wait for it go on waiting. Other than in RQ, one that is not kept any more leaves nobody waiting for ever: where its
 * failure will do they start, and else they fail.
 */
import { Result } from "effect"
import type { InvalidTask, Task } from "./headers.ts"
import { postingOf } from "./headers.ts"
import type { AddressedTask } from "./message.ts"
import { type JobRecord, recordOfTask, step } from "./record.ts"

/** How a job stands, for those that wait for it. `released`: somebody has decided that they need not wait for it. */
export type ParentOutcome = "open" | "succeeded" | "failed" | "cancelled" | "gone" | "released"

/** `undefined`: nothing is known of the job. */
export const parentOutcomeOf = (record: Pick<JobRecord, "state" | "tombstone"> | undefined): ParentOutcome => {
  if (record === undefined) return "gone"
  switch (record.state) {
    case "succeeded":
      return "succeeded"
    case "failed":
    case "expired":
      return record.tombstone ? "gone" : "failed"
    case "cancelled":
      return record.tombstone ? "gone" : "cancelled"
    default:
      return "open"
  }
}

const isMet = (outcome: ParentOutcome, allowFailure: boolean): boolean =>
  outcome === "succeeded" || outcome === "released" || (allowFailure && (outcome === "failed" || outcome === "gone"))

/** The record of a job that waits for others: it holds the whole task. `posting` is what starts it in the end. */
export const deferred = (posting: AddressedTask, task: Task, now: number): JobRecord => {
  const { after = { ids: [] }, submittedAt = now } = task.own
  const first = { n: 1, run: posting.run, at: submittedAt, state: "deferred" } as const
  return {
    ...recordOfTask(posting, task, now),
    state: "deferred",
    timeline: [first],
    after: { ...after, waiting: after.ids },
    message: posting.message,
  }
}

/** What becomes of a job that waits, once more is known of those that it waits for. */
export type Advance =
  /** It has fewer to wait for. */
  | { readonly kind: "fewer"; readonly record: JobRecord }
  /** It waits for none any more: the record to store and the task to post. */
  | { readonly kind: "released"; readonly record: JobRecord; readonly posting: AddressedTask }
  /** It can never start: this one is not kept any more, and has not succeeded. */
  | { readonly kind: "never"; readonly parent: string }
  | { readonly kind: "invalid"; readonly why: InvalidTask }

/** `undefined`: nothing has changed for it. `endings` may lack some of those that it waits for. */
export const advance = (
  record: JobRecord,
  outcomes: ReadonlyMap<string, ParentOutcome>,
  now: number,
): Advance | undefined => {
  const { state, after, message, queue } = record
  if (state !== "deferred" || after?.waiting === undefined || message === undefined) return undefined
  const { waiting, ...kept } = after
  const { allowFailure = false } = after
  const gone = allowFailure ? undefined : waiting.find((id) => outcomes.get(id) === "gone")
  if (gone !== undefined) return { kind: "never", parent: gone }
  const left = waiting.filter((id) => !isMet(outcomes.get(id) ?? "open", allowFailure))
  if (left.length === waiting.length) return undefined
  if (left.length > 0) return { kind: "fewer", record: { ...record, after: { ...kept, waiting: left } } }
  const posting = postingOf(message, queue)
  if (Result.isFailure(posting)) return { kind: "invalid", why: posting.failure }
  const { due } = posting.success
  const waits = due !== undefined && due > now
  const released = step(record, {
    at: now,
    state: waits ? "scheduled" : "queued",
    reason: "released",
    ...(waits ? { due } : {}),
  })
  return { kind: "released", record: { ...released, after: kept }, posting: posting.success }
}
