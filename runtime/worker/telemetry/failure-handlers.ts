/**
 * Handlers that an application registers for failures, in the manner of RQ's exception handlers: after a failed attempt
 * is stored they run in order; one that returns `false` ends the chain.
 */

import { type JobView, jobView } from "../../jobs/view.ts"
import type { Log } from "../../log/log.ts"
import type { JobError, JobRecord } from "../../protocol/record.ts"

/** A failed attempt, as it was stored. */
export interface Failure {
  readonly job: JobView
  readonly error: JobError
  /** Whether another attempt follows. */
  readonly willRetry: boolean
}

/** `false` keeps later handlers from running; anything else lets them. What it throws is logged, and changes nothing. */
export type FailureHandler = (failure: Failure) => unknown

/** Whether a failed attempt is followed by another: its record then names a successor. */
export const hasSuccessor = (record: JobRecord): boolean => record.successor !== undefined

export const runFailureHandlers = async (
  handlers: ReadonlyArray<FailureHandler>,
  record: JobRecord,
  log: Log,
): Promise<void> => {
  const { error } = record
  if (error === undefined || handlers.length === 0) return
  const failure: Failure = { job: jobView(record), error, willRetry: hasSuccessor(record) }
  for (const handler of handlers) {
    try {
      if ((await handler(failure)) === false) return
    } catch (cause) {
      log.error("a failure handler failed", {
        job: record.id,
        cause: cause instanceof Error ? cause.message : String(cause),
      })
    }
  }
}
