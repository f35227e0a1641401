/**
 * Failure handlers of an application, modelled on RQ's exception handlers: they run in order after a failed attempt was
 * stored, and a handler that returns `false` ends the chain.
 */

import { type JobView, jobView } from "../../jobs/view.ts"
import type { Log } from "../../log/log.ts"
import type { JobError, JobRecord } from "../../protocol/record.ts"

/** A failed attempt, as it was stored: the job, its error, and whether it is tried again. */
export interface Failure {
  readonly job: JobView
  readonly error: JobError
  /** Whether another attempt follows. */
  readonly willRetry: boolean
}

/**
 * Called after a failed attempt was stored, and awaited. Returning `false` skips the handlers after it. An error that
 * it throws is logged and changes nothing.
 */
export type FailureHandler = (failure: Failure) => unknown

/** Whether another attempt follows: the record then names its successor. */
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
