/**
 * The options of a method that its actor, the service and the configuration may set for it. One table has their names, and
 * the schemas by which all of them check an option.
 */
import * as Schema from "effect/Schema"
import { type DurationInput, type TimeLimit, timeLimitOf } from "./duration.ts"
import { duration, TimeLimitField } from "./duration-field.ts"
import { filterOf } from "./refusal.ts"
import { RetryField, type RetryPolicy, retryHeader } from "./retry-policy.ts"

const timeLimit: Schema.Codec<TimeLimit> = TimeLimitField.check(filterOf((given) => timeLimitOf(given)))
const retry: Schema.Codec<RetryPolicy | false> = RetryField.check(filterOf((given) => retryHeader(given)))
const timeToLive: Schema.Codec<DurationInput> = duration({ forEver: true })

export const INHERITED = {
  timeLimit,
  retry,
  resultTtl: timeToLive,
  failureTtl: timeToLive,
  onLost: Schema.Literals(["redeliver", "fail"]),
}

export type InheritedOption = keyof typeof INHERITED

/** Their names. */
export const INHERITED_NAMES = Object.keys(INHERITED) as ReadonlyArray<InheritedOption>
