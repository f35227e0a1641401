/**
 * Retry and repeat policies as users write them, on a method or on a task: checked once, by one schema, and turned into the
 * form in which they travel.
 */
import { Result, Schema } from "effect"
import type { RepeatHeader, RetryHeader } from "../protocol/headers.ts"
import { parseDuration } from "../protocol/time.ts"

/** Runs of one job that one policy may ask for: what is meant to go on for ever is a schedule. */
const MOST_TIMES = 10_000
/** Waits that are listed; the last one is used from there on. */
const MOST_INTERVALS = 100

const Duration = Schema.Union([Schema.Finite, Schema.String]).annotate({
  description: "Seconds as a number (fractions are kept), or text: 10s, 5 minutes, 1h",
})
const Interval = Schema.Union([
  Duration,
  Schema.NonEmptyArray(Duration).check(Schema.isMaxLength(MOST_INTERVALS)),
]).annotate({ description: "Wait before each: one for all, or a list whose last one is used from there on" })
const Names = Schema.Array(Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(255)))
const Times = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MOST_TIMES }))

const RetrySchema = Schema.Struct({
  max: Schema.optionalKey(
    Times.annotate({ description: "Retries after the first attempt; `retry: false` is for none" }),
  ),
  backoff: Schema.optionalKey(
    Schema.Struct({
      base: Schema.optionalKey(Duration),
      factor: Schema.optionalKey(Schema.Finite.check(Schema.isBetween({ minimum: 1, maximum: 100 }))),
      max: Schema.optionalKey(Duration),
      jitter: Schema.optionalKey(Schema.Boolean),
    }),
  ),
  interval: Schema.optionalKey(Interval),
  front: Schema.optionalKey(Schema.Boolean.annotate({ description: "Retries go before every priority" })),
  on: Schema.optionalKey(Names),
  except: Schema.optionalKey(Names),
})

/** A retry policy as it is written; `false`: no retries, whatever the method says. */
export const RetryField = Schema.Union([Schema.Literal(false), RetrySchema]).annotate({
  description: "Whether and when a failed attempt is followed by another; `false`: not at all",
})

/** How often a job that succeeded runs again. */
export const RepeatField = Schema.Struct({
  times: Times.annotate({ description: "Runs after the first one, each after a success" }),
  interval: Schema.optionalKey(Interval),
})

/** What is wrong with a policy, and where. */
export interface PolicyProblem {
  readonly field: string
  readonly message: string
}

type Policy = typeof RetryField.Type

class Wrong {
  readonly problem: PolicyProblem
  constructor(field: string, message: string) {
    this.problem = { field, message }
  }
}

const milliseconds = (field: string, value: number | string): number => {
  const parsed = parseDuration(value)
  if (Result.isFailure(parsed)) throw new Wrong(field, parsed.failure.message)
  return parsed.success
}

const intervals = (field: string, interval: typeof Interval.Type): ReadonlyArray<number> =>
  typeof interval === "object"
    ? interval.map((each, at) => milliseconds(`${field}[${at}]`, each))
    : [milliseconds(field, interval)]

const checked = <A>(make: () => A): Result.Result<A, PolicyProblem> => {
  try {
    return Result.succeed(make())
  } catch (thrown) {
    if (thrown instanceof Wrong) return Result.fail(thrown.problem)
    throw thrown
  }
}

/** A retry policy as it travels. Fails on durations that are none, naming the field below `retry`. */
export const retryHeader = (policy: Policy): Result.Result<RetryHeader, PolicyProblem> =>
  checked(() => {
    if (policy === false) return { max: 0 }
    const { max, backoff, interval, front, on, except } = policy
    if (interval !== undefined && backoff !== undefined) {
      throw new Wrong("retry.interval", "give `interval` or `backoff`, not both")
    }
    return {
      ...(max === undefined ? {} : { max }),
      ...(backoff?.base === undefined ? {} : { baseMs: milliseconds("retry.backoff.base", backoff.base) }),
      ...(backoff?.factor === undefined ? {} : { factor: backoff.factor }),
      ...(backoff?.max === undefined ? {} : { maxMs: milliseconds("retry.backoff.max", backoff.max) }),
      ...(backoff?.jitter === undefined ? {} : { jitter: backoff.jitter }),
      ...(interval === undefined ? {} : { intervalsMs: intervals("retry.interval", interval) }),
      ...(front === undefined ? {} : { front }),
      ...(on === undefined ? {} : { on }),
      ...(except === undefined ? {} : { except }),
    }
  })

/** A repeat policy as it travels, before its first run. Fails on durations that are none, naming the field below `repeat`. */
export const repeatHeader = ({
  times,
  interval,
}: typeof RepeatField.Type): Result.Result<RepeatHeader, PolicyProblem> =>
  checked(() => ({
    times,
    done: 0,
    intervalsMs: interval === undefined ? [0] : intervals("repeat.interval", interval),
  }))
