/** Durations as people write them, on every option that takes one. */
import { Result, Schema } from "effect"
import { parseDuration, parseTimeToLive } from "../protocol/time.ts"
import { type Refuse, refuseInput } from "./refuse.ts"

/** A span of time: seconds as a number (fractions are kept), or text such as `"10s"` or `"5 minutes"`. */
export type DurationInput = number | string

export const Duration = Schema.Union([Schema.Finite, Schema.String]).annotate({
  description: "Seconds as a number (fractions are kept), or text: 10s, 5 minutes, 1h",
})

/** Which durations an option takes. */
export interface DurationRange {
  /** The shortest one, in milliseconds. Defaults to 0. */
  readonly least?: number
  /** Whether 0 may be given as well, although it is shorter. */
  readonly orZero?: boolean
  /** Whether a negative number may be given, which means for ever and comes as −1. */
  readonly forEver?: boolean
}

/** Fails with what is wrong, in words. */
const parse = (value: DurationInput, range: DurationRange): Result.Result<number, string> => {
  const { least = 0, orZero = false, forEver = false } = range
  const parsed = forEver ? parseTimeToLive(value) : parseDuration(value)
  if (Result.isFailure(parsed)) return Result.fail(parsed.failure.message)
  const ms = parsed.success
  if (ms >= least || ms < 0 || (orZero && ms === 0)) return Result.succeed(ms)
  return Result.fail(`must be at least ${least / 1000} seconds`)
}

/** What a duration comes to, in whole milliseconds from 0 to a hundred years; what is none is refused. */
export const milliseconds = (
  field: string,
  value: DurationInput,
  refuse: Refuse = refuseInput,
  range: DurationRange = {},
): number => {
  const parsed = parse(value, range)
  return Result.isSuccess(parsed) ? parsed.success : refuse(field, parsed.failure)
}

/** A time to live in milliseconds. A negative number means for ever, which a duration cannot say: −1. */
export const timeToLive = (field: string, value: DurationInput, refuse: Refuse = refuseInput): number =>
  milliseconds(field, value, refuse, { forEver: true })

/** The same rule as a field of a schema. */
export const duration = (range: DurationRange = {}) =>
  Schema.Union([Schema.Finite, Schema.String]).check(
    Schema.makeFilter((value: DurationInput) => {
      const parsed = parse(value, range)
      return Result.isSuccess(parsed) || parsed.failure
    }),
  )
