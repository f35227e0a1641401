/**
 * Jobs that wait for other jobs: a job waits for its parents. Decides what the outcome of a parent means for the jobs that
 * wait for it. Pure.
 *
 * As in RQ, a job waits for the success of its parents; with `allowFailure` a failure will do. A cancelled parent releases
 * no job, because what follows it is not wanted either. A failed or cancelled parent may run again, so its jobs go on
 * waiting. Unlike in RQ no job waits for ever for a parent whose record is not kept any more: with `allowFailure` the job
 * starts, otherwise it fails.
 */
import * as Result from "effect/Result"
import type { InvalidTask, Task } from "./headers.ts"
import { parseTask, postingOf } from "./headers.ts"
import type { JobPosting, Message } from "./message.ts"
import { type JobRecord, recordOfTask, step } from "./record.ts"
import { formatTime } from "./time.ts"

/**
 * The outcome of a parent. `open`: it has not ended. `gone`: its record is not kept any more. `released`: an operator has
 * decided that no job needs to wait for it.
 */
export type ParentOutcome = "open" | "succeeded" | "failed" | "cancelled" | "gone" | "released"

/** The outcome by the record of the parent; `undefined`: there is no record. */
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

/** The record of a job that waits for its parents. It holds the whole task, because no queue has it. */
export const deferred = (posting: JobPosting, task: Task, now: number): JobRecord => {
  const { after, chord, submittedAt = now } = task.own
  const first = { n: 1, run: posting.run, at: submittedAt, state: "deferred" } as const
  return {
    ...recordOfTask(posting, task, now),
    state: "deferred",
    timeline: [first],
    ...(after === undefined ? {} : { after: { ...after, waiting: after.ids } }),
    ...(chord === undefined ? {} : { chord: { ...chord, waiting: true } }),
    message: posting.message,
  }
}

/** What becomes of a waiting job when outcomes of its parents are known. */
export type Advance =
  /** The job waits for fewer parents. */
  | { readonly kind: "fewer"; readonly record: JobRecord }
  /** The job waits no longer: the record to store, and the task to post. */
  | { readonly kind: "released"; readonly record: JobRecord; readonly posting: JobPosting }
  /** The job can never start: this parent is not kept any more, and is not known to have succeeded. */
  | { readonly kind: "never"; readonly parent: string }
  | { readonly kind: "invalid"; readonly why: InvalidTask }

/** `undefined`: nothing changes for the job. `outcomes` need not have all its parents. */
export const advance = (
  record: JobRecord,
  outcomes: ReadonlyMap<string, ParentOutcome>,
  now: number,
): Advance | undefined => {
  const { state, after, chord, message } = record
  if (state !== "deferred" || after?.waiting === undefined || message === undefined) return undefined
  const { waiting, ...kept } = after
  const { allowFailure = false } = after
  const gone = allowFailure ? undefined : waiting.find((id) => outcomes.get(id) === "gone")
  if (gone !== undefined) return { kind: "never", parent: gone }
  const left = waiting.filter((id) => !isMet(outcomes.get(id) ?? "open", allowFailure))
  if (left.length === waiting.length) return undefined
  if (left.length > 0) return { kind: "fewer", record: { ...record, after: { ...kept, waiting: left } } }
  const next = { ...record, after: kept }
  return chord?.waiting ? { kind: "fewer", record: next } : released(next, message, now)
}

/**
 * The body of a chord whose members have ended: `message` is its task with their results. It starts, unless it waits for other
 * jobs as well. `undefined`: it does not wait for members.
 */
export const handedOver = (record: JobRecord, message: Message, now: number): Advance | undefined => {
  const { state, after, chord } = record
  if (state !== "deferred" || chord?.waiting === undefined) return undefined
  const { waiting: _waiting, ...kept } = chord
  const next = { ...record, chord: kept, message }
  return after?.waiting === undefined ? released(next, message, now) : { kind: "fewer", record: next }
}

const released = (before: JobRecord, deferred: Message, now: number): Advance => {
  const parsed = parseTask(deferred)
  if (Result.isFailure(parsed)) return { kind: "invalid", why: parsed.failure }
  const { eta, own } = parsed.success
  // The time that the job may wait begins now, or when it is due.
  const expiresAt = own.ttlMs === undefined ? undefined : Math.max(now, eta ?? now) + own.ttlMs
  const message =
    expiresAt === undefined
      ? deferred
      : { ...deferred, headers: { ...deferred.headers, expires: formatTime(expiresAt) } }
  const posting = postingOf(message, before.queue)
  if (Result.isFailure(posting)) return { kind: "invalid", why: posting.failure }
  const { due } = posting.success
  const waits = due !== undefined && due > now
  const record = expiresAt === undefined ? before : { ...before, expiresAt, message }
  const next = step(record, {
    at: now,
    state: waits ? "scheduled" : "queued",
    reason: "released",
    ...(waits ? { due } : {}),
  })
  return { kind: "released", record: next, posting: posting.success }
}
