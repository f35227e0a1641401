/** Whether a delivery may still write about its job. Pure. */
import { isTerminal } from "../../../runtime/protocol/state.ts"
import type { JobRecord } from "../../../runtime/transport/mod.ts"
import { isAhead, keyOf } from "../jobs/number.ts"

/**
 * `write`: nothing speaks against it. `done`: this delivery has stored its outcome already, and that stands (a lost
 * acknowledgement). `superseded`: somebody else has the job, or it is over.
 *
 * `nth` is the publish key of the delivered posting, where that is still in the queue.
 */
export const judge = (
  stored: JobRecord | undefined,
  record: JobRecord,
  fence: string,
  nth: number | undefined,
): "write" | "done" | "superseded" => {
  if (stored === undefined) return "write"
  if (stored.run > record.run || stored.fence > fence) return "superseded"
  // The record ends a run by beginning the next one: only a run that nobody has ended can be.
  if (stored.run < record.run) return isTerminal(stored.state) ? "superseded" : "write"
  if (stored.fence === fence) {
    if (!isTerminal(stored.state)) return "write"
    return stored.state === record.state ? "done" : "superseded"
  }
  if (isTerminal(stored.state)) return "superseded"
  return nth !== undefined && wentOn(stored, nth) ? "superseded" : "write"
}

/** Whether the job goes on in a later posting than this one. */
export const wentOn = (stored: JobRecord, nth: number): boolean =>
  stored.successor !== undefined && isAhead(stored.successor, stored.id, keyOf(nth))
