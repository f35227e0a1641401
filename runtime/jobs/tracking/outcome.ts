/** The outcome of a job, from its record. */
import { JobCancelled, JobExpired, JobFailed, ResultGone } from "../../errors.ts"
import type { JobError, JobRecord } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"

/** How a job ended. */
export type Outcome<R = unknown> =
  | { readonly state: "succeeded"; readonly result: R }
  | { readonly state: "failed"; readonly error: JobError }
  | { readonly state: "cancelled" }
  | { readonly state: "expired" }
  /** The job has ended, and its outcome is not kept any more. */
  | { readonly state: "gone" }

/** `undefined` while the job goes on. The result is in its JSON form, as the record stores it and HTTP shows it. */
export const outcomeOf = (
  record: Pick<JobRecord, "state" | "result" | "error"> & { readonly tombstone?: boolean },
): Outcome | undefined => {
  if (!isTerminal(record.state)) return undefined
  if (record.tombstone) return { state: "gone" }
  switch (record.state) {
    case "succeeded":
      return { state: "succeeded", result: record.result ?? null }
    case "cancelled":
      return { state: "cancelled" }
    case "expired":
      return { state: "expired" }
    default:
      return {
        state: "failed",
        error: record.error ?? { name: "Error", message: "no reason was recorded", reason: "unknown" },
      }
  }
}

/**
 * The result of a job that succeeded. Throws `JobFailed`, `JobCancelled`, `JobExpired` or `ResultGone` for the other
 * outcomes.
 */
export const valueOf = (id: string, outcome: Outcome): unknown => {
  switch (outcome.state) {
    case "succeeded":
      return outcome.result
    case "failed":
      throw new JobFailed(id, outcome.error)
    case "cancelled":
      throw new JobCancelled(id)
    case "expired":
      throw new JobExpired(id)
    case "gone":
      throw new ResultGone(id)
  }
}
