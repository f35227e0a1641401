/** What routes that change many jobs have in common: each answers within its budget, with 202 if jobs are left. */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { parseDuration } from "../protocol/time.ts"
import { DECISION_BUDGET_MS, DECISION_RANGE_MS } from "./bounds.ts"
import { text } from "./parameter.ts"

const [MIN_MS, MAX_MS] = DECISION_RANGE_MS

const Budget = Schema.String.annotate({
  description: `Time limit of the call; if it is not done by then, the response is 202. The default is ${DECISION_BUDGET_MS / 1000} s, the maximum ${MAX_MS / 1000} s`,
  examples: ["30s"],
}).check(
  Schema.makeFilter((given: string) => {
    const parsed = parseDuration(given)
    if (Result.isFailure(parsed)) return parsed.failure.message
    return (
      (parsed.success >= MIN_MS && parsed.success <= MAX_MS) ||
      `must be from ${MIN_MS} ms to ${MAX_MS / 1000} s; call again to continue`
    )
  }),
)

/** The parameter that says how long a call goes on. */
export const bounded = { budget: text(Budget) }

/** The answer of a call that is not done. */
export const partly = <S extends Schema.Top>(schema: S) => ({
  status: 202 as const,
  description: "Not done yet: `partial` has the progress. Call the same route again to continue",
  schema,
})
