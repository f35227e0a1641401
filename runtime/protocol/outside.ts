/** What is written about a job by who does not hold its task. */
import { Result } from "effect"
import { parseTask } from "./headers.ts"
import type { JobRecord } from "./record.ts"

/**
 * What a decision from outside of a delivery writes: kept, a delivery that settles later would take the record for its
 * own, and its refusal for a lost acknowledgement.
 */
export const NO_FENCE = ""

/** What is configured for the failures of a method, in milliseconds. */
type KeepFailed = (task: string, meth: string | null) => number

/** How long a job that is cancelled or expires while it waits is kept: as its failure would be. */
export const keepOf = ({ message, task: name, meth }: JobRecord, keepFailed: KeepFailed): number => {
  const task = message === undefined ? undefined : Result.getOrUndefined(parseTask(message))
  return task?.own.failureTtlMs ?? keepFailed(name, meth)
}

/** The record of a job whose end was decided from outside. */
export const endedOutside = (record: JobRecord, now: number, keepFailed: KeepFailed): JobRecord => ({
  ...record,
  fence: NO_FENCE,
  endedAt: now,
  keepMs: keepOf(record, keepFailed),
})
