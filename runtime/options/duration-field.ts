/** The rule for durations as schemas. */
import * as Schema from "effect/Schema"
import { DURATION_RULE, type DurationInput, type DurationRange, millisecondsIn } from "./duration.ts"

export const Duration = Schema.Union([Schema.Finite, Schema.String]).annotate({
  message: DURATION_RULE,
  description: "Seconds as a number (fractions are kept), or text: 10s, 5 minutes, 1h",
})

/** The same rule as a schema. */
export const duration = (range: DurationRange = {}) =>
  Schema.Union([Schema.Finite, Schema.String])
    .annotate({ message: DURATION_RULE })
    .check(
      Schema.makeFilter((value: DurationInput) => {
        const ms = millisecondsIn(value, range)
        return typeof ms === "number" || ms
      }),
    )

export const TimeLimitField = Schema.Union([
  Schema.Finite,
  Schema.String,
  Schema.Struct({ soft: Schema.optionalKey(Duration), hard: Schema.optionalKey(Duration) }),
]).annotate({
  message: "must be a duration, or an object with soft and hard",
  description: "Time limit of an attempt; a number or text is the hard limit, -1 means none",
})
