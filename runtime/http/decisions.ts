/** What calls that change many jobs have in common: each answers within its budget, with 202 where jobs are left. */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { BulkReport as Report } from "../jobs/commands/decide.ts"
import type { BulkReport } from "../jobs/lists.ts"
import { parseDuration } from "../protocol/time.ts"
import { DECISION_BUDGET_MS, DECISION_RANGE_MS } from "./limits.ts"
import { text } from "./parameter.ts"
import { json } from "./response.ts"
import type { RouteResponse } from "./route.ts"

const [MIN_MS, MAX_MS] = DECISION_RANGE_MS

const Budget = Schema.String.annotate({
  description: `How long the call goes on: an answer that is not done by then is 202. ${DECISION_BUDGET_MS / 1000} s if nothing is said, ${MAX_MS / 1000} s at most`,
  examples: ["30s"],
}).check(
  Schema.makeFilter((given: string) => {
    const parsed = parseDuration(given)
    if (Result.isFailure(parsed)) return parsed.failure.message
    return (
      (parsed.success >= MIN_MS && parsed.success <= MAX_MS) ||
      `must be from ${MIN_MS} ms to ${MAX_MS / 1000} s; call again for longer`
    )
  }),
)

/** The parameter that says how long a call goes on. */
export const bounded = { budget: text(Budget) }

/** A checked budget, in seconds as options of the client take it. */
export const budgetOf = (given: string | undefined): number =>
  Result.getOrElse(
    given === undefined ? Result.succeed(DECISION_BUDGET_MS) : parseDuration(given),
    () => DECISION_BUDGET_MS,
  ) / 1_000

/** The answer of a call that is not done. */
export const partly = (schema: Schema.Top): RouteResponse => ({
  status: 202,
  description: "Not done yet: `partial` says how far it came. Call the same route again to go on",
  schema,
})

/** The answer to a decision about many jobs. */
export const reported = (report: Report): Response =>
  json<typeof BulkReport.Type>({ ...report, more: report.next !== undefined }, report.partial === undefined ? 200 : 202)
