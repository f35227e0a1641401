/**
 * What a link shows of its job: a list of fields, so that a new field of jobs is not shown until it is added here. None of
 * them says what the job was given, where it ran, or to which other jobs it belongs.
 */
import type { JobResult } from "../jobs/responses.ts"
import type { JobView, TransitionView } from "../jobs/view.ts"
import { compact, ifGiven, pick } from "../protocol/compact.ts"

const JOB_FIELDS = [
  "id",
  "task",
  "meth",
  "name",
  "queue",
  "priority",
  "state",
  "celeryState",
  "run",
  "attempts",
  "retries",
  "progress",
  "times",
  "durations",
  "result",
] as const satisfies ReadonlyArray<keyof JobView>

type JobError = NonNullable<JobView["error"]>

/** The error without its traceback and its causes, which describe the code of the handler. */
export const linkedError = (error: JobError): JobError => pick(error, ["name", "message", "reason", "field"])

export const linkedTransition = (transition: TransitionView): TransitionView =>
  pick(transition, ["id", "at", "state", "attempt", "reason", "due", "error"])

export const linkedJob = (job: JobView): JobView => ({
  ...pick(job, JOB_FIELDS),
  ...compact({ error: ifGiven(job.error, linkedError) }),
  transitions: job.transitions.map(linkedTransition),
})

export const linkedOutcome = <Outcome extends Omit<typeof JobResult.Type, "id">>(outcome: Outcome): Outcome => ({
  ...outcome,
  ...compact({ error: ifGiven(outcome.error, linkedError) }),
})
