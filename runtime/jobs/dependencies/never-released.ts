/** The end of a deferred job that can never start: it becomes a dead letter, and its errbacks are posted. */

import { type KeepFailed, keepOf, NO_FENCE } from "../../protocol/outside.ts"
import type { JobError, JobRecord } from "../../protocol/record.ts"
import { step } from "../../protocol/record.ts"
import type { Decision } from "../../transport/lift/transport.ts"
import type { TransportError } from "../../transport/mod.ts"
import { lostJobFailure } from "../outcome/lost-job.ts"

/** The record of a parent is not kept any more. */
export const parentGone = (parent: string): JobError => ({
  name: "DependencyGone",
  message: `job ${parent}, for which it waited, is not kept any more, and is not known to have succeeded; run this one all the same by retrying it`,
  reason: "dependency-gone",
})

/** The deferred task cannot be parsed. */
export const unreadable = (why: string): JobError => ({ name: "InvalidTask", message: why, reason: "invalid-task" })

/** The transport refuses the task for good. */
export const refused = ({ message }: TransportError): JobError => ({
  name: "NotReleased",
  message: `it waits for nothing any more, but the transport refuses its task: ${message}`,
  reason: "not-released",
})

/**
 * The change that ends the job. `bare`: without its message and follow-ups, for a record that is too large with them.
 */
export const failure = (
  record: JobRecord,
  error: JobError,
  now: number,
  { keepFailed, bare = false }: { readonly keepFailed: KeepFailed; readonly bare?: boolean },
): Pick<Decision, "record" | "post"> => {
  const keepMs = keepOf(record, keepFailed)
  const dead = error.reason
  const { after, message, ...kept } = record
  const ended: JobRecord = after === undefined ? kept : { ...kept, after: withoutWaiting(after) }
  if (!bare && message !== undefined) {
    const settlement = lostJobFailure({ ...ended, message }, error, { token: "", fence: NO_FENCE, now, keepMs, dead })
    if (settlement?.record !== undefined) return { record: settlement.record, post: settlement.followUps ?? [] }
  }
  const { meta: _meta, ...small } = ended
  const over = step(small, { at: now, state: "failed", reason: dead })
  return { record: { ...over, fence: NO_FENCE, endedAt: now, error, dead, keepMs } }
}

const withoutWaiting = ({ waiting: _waiting, ...after }: NonNullable<JobRecord["after"]>) => after
