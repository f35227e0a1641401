/** Lets a scheduled job run at once. */
import * as Result from "effect/Result"
import type { Connection } from "../../connection/connection.ts"
import { CallboardError } from "../../errors.ts"
import { parseTask, postingOfTask, renderCompact } from "../../protocol/headers.ts"
import { type AddressedTask, FRONT_LEVEL, type Message, publishKey } from "../../protocol/message.ts"
import { NO_FENCE } from "../../protocol/outside.ts"
import { type JobRecord, step } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import { goneError } from "../tracking/finding.ts"
import { decide } from "./decide.ts"

/** The same task, due now. It ranks behind the one that waits, so that this one is over wherever both are found. */
const dueNow = ({ id, queue, front }: JobRecord, message: Message): AddressedTask => {
  const posting = Result.flatMap(parseTask(message), (task) => {
    const now = { ...task, eta: null, own: { ...task.own, hops: (task.own.hops ?? 0) + 1 } }
    return postingOfTask(now, { ...message, headers: renderCompact(now) }, queue)
  })
  // That a retry goes before every priority may be the rule of its method, of which the message says nothing.
  if (Result.isSuccess(posting)) return front ? { ...posting.success, level: FRONT_LEVEL } : posting.success
  throw new CallboardError("unsupported", `job ${id} cannot be posted anew: ${posting.failure.message}`, { id })
}

/**
 * Puts a job that is scheduled, also for its next attempt, into its queue at once. One that is in its queue stays as it is. Fails
 * with `job-exists` while it runs or waits for other jobs, with `already-terminal`, `gone` and `not-found`.
 */
export const runJobNow = (connection: Connection, id: string): Promise<JobRecord> =>
  decide(connection, id, ({ record }) => {
    const { state, message, tombstone } = record
    if (tombstone) throw goneError(id)
    if (state === "queued") return undefined
    if (isTerminal(state)) {
      throw new CallboardError("already-terminal", `job ${id} is already ${state}: retry it instead`, { id })
    }
    if (state !== "scheduled" || message === undefined) {
      const why = state === "deferred" ? "it waits for other jobs; release it by cancelling those" : "it runs already"
      throw new CallboardError("job-exists", `job ${id} is ${state}: ${why}`, { id })
    }
    const posting = dueNow(record, message)
    const { dueAt: _due, followUps = [], ...kept } = record
    const others = followUps.filter((each) => each.id !== id)
    return {
      record: {
        ...step(kept, { at: Date.now(), state: "queued", reason: "run-now" }),
        fence: NO_FENCE,
        successor: publishKey(posting),
        message: posting.message,
        ...(others.length === 0 ? {} : { followUps: others }),
      },
      withdraw: true,
      post: [posting],
    }
  })
