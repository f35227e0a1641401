/**
 * Changes of a record from outside of a delivery: a job that is cancelled, purged, or expires, is ended without its
 * task.
 */
import * as Result from "effect/Result"
import { parseTask } from "./headers.ts"
import type { JobRecord } from "./record.ts"

/**
 * The fence of a record that was written from outside of a delivery. Were the delivery's fence kept, a delivery that settles
 * later would take the record for its own, and the refusal of its outcome for a lost acknowledgement.
 */
export const NO_FENCE = ""

/** How long failures of a method are kept, in milliseconds; a negative number means for ever. */
export type KeepFailed = (task: string, meth: string | null) => number

/** How long the record of a job that is cancelled or expires is kept: as long as its failure would be. */
export const keepOf = ({ message, task: name, meth }: JobRecord, keepFailed: KeepFailed): number => {
  const task = message === undefined ? undefined : Result.getOrUndefined(parseTask(message))
  return task?.own.failureTtlMs ?? keepFailed(name, meth)
}

/** The record of a job that was ended from outside. None of its steps is reverted any more. */
export const endedOutside = (record: JobRecord, now: number, keepFailed: KeepFailed): JobRecord => {
  const { reverting: _reverting, waits: _waits, ...ended } = record
  return { ...ended, fence: NO_FENCE, endedAt: now, keepMs: keepOf(record, keepFailed) }
}

/** What stays of the tombstone in the record of the next run: the numbers of its transitions. */
export const afterTombstone = (record: JobRecord, { timeline }: JobRecord): JobRecord => {
  const before = timeline.at(-1)?.n ?? 0
  return { ...record, timeline: record.timeline.map((each) => ({ ...each, n: each.n + before })) }
}
