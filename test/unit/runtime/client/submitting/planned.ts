/** Submissions of the actor `echo` with the id `own`, as they are planned at one moment. */
import { Result } from "effect"
import { type PlanContext, plan } from "../../../../../runtime/client/submitting/plan.ts"
import { parseSubmission } from "../../../../../runtime/jobs/submission/submission.ts"

export const NOW = Date.UTC(2031, 5, 7, 8, 9, 10, 500)
const CONTEXT: PlanContext = { now: NOW, id: "own", origin: "gen1@here", defaults: { queue: "default" } }

const planned = (fields: object, context: Partial<PlanContext> = {}) =>
  Result.flatMap(parseSubmission({ task: "echo", ...fields }), (checked) => plan(checked, { ...CONTEXT, ...context }))

export const posting = (fields: object, context?: Partial<PlanContext>) => Result.getOrThrow(planned(fields, context))

/** Why it is refused, if it is. */
export const problem = (fields: object) => {
  const answer = planned(fields)
  return Result.isFailure(answer) ? { code: answer.failure.code, field: answer.failure.details.field } : undefined
}
