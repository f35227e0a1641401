/** Lets a scheduled or suspended job continue at once. Pure. */
import * as Result from "effect/Result"
import { CallboardError } from "../../errors.ts"
import { parseTask, postingOfTask, renderCompact } from "../../protocol/headers.ts"
import { FRONT_LEVEL, type JobPosting, type Message, publishKey } from "../../protocol/message.ts"
import { NO_FENCE } from "../../protocol/outside.ts"
import { type JobRecord, step } from "../../protocol/record.ts"
import type { Decision } from "../../transport/job-store/transport.ts"

/**
 * The same task, due now. It counts as later than the scheduled one, by `hops`: so the scheduled one is dropped where
 * both are found.
 */
const dueNow = ({ id, queue, front }: JobRecord, message: Message): JobPosting => {
  const posting = Result.flatMap(parseTask(message), (task) => {
    const now = { ...task, eta: null, own: { ...task.own, hops: (task.own.hops ?? 0) + 1 } }
    return postingOfTask(now, { ...message, headers: renderCompact(now) }, queue)
  })
  // Whether the task goes before every priority may be a rule of its method. The message does not hold it, but the
  // record does.
  if (Result.isSuccess(posting)) return front ? { ...posting.success, level: FRONT_LEVEL } : posting.success
  throw new CallboardError("unsupported", `job ${id} cannot be posted again: ${posting.failure.message}`, { id })
}

/** Posts the task of a scheduled job again, due now; `undefined` if its task is not kept. */
export const startedNow = (
  record: JobRecord,
  at: number,
  reason: "run-now" | "signalled" | "called" = "run-now",
): Omit<Decision, "id" | "expect"> | undefined => {
  const { id, followUps = [] } = record
  // The task in the queue may be that of the delivery before: the record's own follow-up is the newest.
  const message = followUps.find((each) => each.id === id)?.message ?? record.message
  if (message === undefined) return undefined
  const posting = dueNow(record, message)
  const { dueAt: _due, message: _message, waits: _waits, followUps: _followUps, ...kept } = record
  const others = followUps.filter((each) => each.id !== id)
  return {
    record: {
      ...step(kept, { at, state: "queued", reason }),
      fence: NO_FENCE,
      successor: publishKey(posting),
      // Whoever finds the scheduled task, or no task, posts this one: this process may die before it does.
      followUps: [...others, posting],
    },
    withdraw: true,
    post: [posting],
  }
}
