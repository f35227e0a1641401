/** Submits a task under the id of a job that was deleted: it becomes the next run of that id. */
import * as Result from "effect/Result"
import type { Connection } from "../../connection/connection.ts"
import { CallboardError } from "../../errors.ts"
import { parseTask, postingOfTask, renderCompact, type Task } from "../../protocol/headers.ts"
import type { JobPosting } from "../../protocol/message.ts"
import { afterTombstone } from "../../protocol/outside.ts"
import { recordOfTask } from "../../protocol/record.ts"
import type { DecisionAnswer, Found } from "../../transport/job-store/transport.ts"

/** A task, and the tombstone that it replaces. */
export interface NextRun {
  readonly posting: JobPosting
  readonly task: Task
  readonly over: Found
}

/** The task as the run that follows the tombstone's, so that deliveries of the deleted job count no more. */
export const nextRunOf = ({ message, queue }: JobPosting, over: Found): NextRun => {
  const parsed = Result.map(parseTask(message), (task) => ({
    ...task,
    own: { ...task.own, run: over.record.run + 1 },
  }))
  const posting = Result.flatMap(parsed, (task) =>
    postingOfTask(task, { ...message, headers: renderCompact(task) }, queue),
  )
  // The planner has made the headers, so that they parse.
  if (Result.isFailure(parsed)) throw new CallboardError("internal", parsed.failure.message)
  if (Result.isFailure(posting)) throw new CallboardError("internal", posting.failure.message)
  return { posting: posting.success, task: parsed.success, over }
}

/** Stores the tasks and their records over the tombstones. One answer for each, in order. */
export const submitNextRuns = (
  { jobs }: Connection,
  runs: ReadonlyArray<NextRun>,
  now: number,
): Promise<ReadonlyArray<DecisionAnswer>> =>
  jobs.decide(
    runs.map(({ posting, task, over }) => ({
      id: posting.id,
      expect: over.revision,
      record: { ...afterTombstone(recordOfTask(posting, task, now), over.record), message: posting.message },
      post: [posting],
    })),
  )
