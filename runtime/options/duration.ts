/** Durations in options: one rule for every option that takes one. */
import { Result, Schema } from "effect"
import { parseDuration, parseTimeToLive } from "../protocol/time.ts"
import { type Refuse, refuseInput } from "./refuse.ts"

/**
 * A duration: seconds as a number (fractions are kept), or text such as `"500 ms"`, `"10s"`, `"5 minutes"` or `"1h"`.
 */
export type DurationInput = number | string

export const Duration = Schema.Union([Schema.Finite, Schema.String]).annotate({
  description: "Seconds as a number (fractions are kept), or text: 10s, 5 minutes, 1h",
})

/** Which durations an option allows. */
export interface DurationRange {
  /** The shortest duration, in milliseconds. Defaults to 0. */
  readonly least?: number
  /** Whether 0 is allowed although it is shorter than `least`. Defaults to false. */
  readonly orZero?: boolean
  /** Whether a negative number is allowed, which means for ever and becomes −1. Defaults to false. */
  readonly forEver?: boolean
}

/** Milliseconds of a duration. Fails with a sentence that follows the name of the option. */
const parse = (value: DurationInput, range: DurationRange): Result.Result<number, string> => {
  const { least = 0, orZero = false, forEver = false } = range
  const parsed = forEver ? parseTimeToLive(value) : parseDuration(value)
  if (Result.isFailure(parsed)) return Result.fail(parsed.failure.message)
  const ms = parsed.success
  if (ms >= least || ms < 0 || (orZero && ms === 0)) return Result.succeed(ms)
  return Result.fail(`must be at least ${least / 1000} seconds`)
}

/** A duration in whole milliseconds, from 0 to a hundred years. Any other value is refused with `refuse`. */
export const milliseconds = (
  field: string,
  value: DurationInput,
  refuse: Refuse = refuseInput,
  range: DurationRange = {},
): number => {
  const parsed = parse(value, range)
  return Result.isSuccess(parsed) ? parsed.success : refuse(field, parsed.failure)
}

/** A time to live in whole milliseconds. A negative number means for ever and becomes −1. */
export const timeToLive = (field: string, value: DurationInput, refuse: Refuse = refuseInput): number =>
  milliseconds(field, value, refuse, { forEver: true })

/** The same rule as a schema. */
export const duration = (range: DurationRange = {}) =>
  Schema.Union([Schema.Finite, Schema.String]).check(
    Schema.makeFilter((value: DurationInput) => {
      const parsed = parse(value, range)
      return Result.isSuccess(parsed) || parsed.failure
    }),
  )
