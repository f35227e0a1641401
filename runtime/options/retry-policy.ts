/**
 * Retry and repeat policies of methods and tasks: checked by one schema, and converted to the form in which they travel in
 * the headers of a task.
 */
import * as Schema from "effect/Schema"
import { compact, ifGiven } from "../protocol/compact.ts"
import type { RepeatHeader, RetryHeader } from "../protocol/headers.ts"
import { type DurationInput, milliseconds } from "./duration.ts"
import { Duration } from "./duration-field.ts"
import { whole } from "./fields.ts"
import { type Refuse, refuseInput } from "./refuse.ts"

/** Whether and when a failed attempt is followed by a retry. */
export interface RetryPolicy {
  /**
   * Most retries after the first attempt, 1–10,000. Defaults to none; to 3 where the handler itself asks for retries.
   */
  readonly max?: number | undefined
  readonly backoff?:
    | {
        /** Wait before the first retry. Defaults to 1 second. */
        readonly base?: DurationInput | undefined
        /** Factor by which each further wait is longer, 1–100. Defaults to 2. */
        readonly factor?: number | undefined
        /** Longest wait. Defaults to 10 minutes. */
        readonly max?: DurationInput | undefined
        /** Waits a random time between 0 and the computed wait (as Celery's `retry_jitter`). Defaults to true. */
        readonly jitter?: boolean | undefined
      }
    | undefined
  /**
   * Exact wait before each retry, instead of the back-off: one for all retries, or a list, whose last wait is used for all
   * further retries.
   */
  readonly interval?: DurationInput | readonly [DurationInput, ...ReadonlyArray<DurationInput>] | undefined
  /** Retries are taken before tasks of any priority. Defaults to false. */
  readonly front?: boolean | undefined
  /** Retry only errors with one of these tags or names. Defaults to every error. */
  readonly on?: ReadonlyArray<string> | undefined
  /** Never retry errors with one of these tags or names. */
  readonly except?: ReadonlyArray<string> | undefined
}

/** Most retries, or repeated runs, of one policy. A job that must run for ever is a schedule. */
const MAX_TIMES = 10_000
/** Most waits in a list; the last one is used for all further runs. */
const MAX_INTERVALS = 100

const Interval = Schema.Union([
  Duration,
  Schema.NonEmptyArray(Duration).check(Schema.isMaxLength(MAX_INTERVALS)),
]).annotate({ description: "Wait before each one: a single duration, or a list whose last duration repeats" })
const Names = Schema.Array(Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(255)))
const Times = whole({ min: 1, max: MAX_TIMES })

export const RETRY_FIELDS = {
  max: Schema.optionalKey(
    Times.annotate({ description: "Maximum number of retries after the first attempt; `retry: false` means none" }),
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
  front: Schema.optionalKey(
    Schema.Boolean.annotate({ description: "Whether retries run ahead of tasks of any priority" }),
  ),
  on: Schema.optionalKey(Names),
  except: Schema.optionalKey(Names),
}

export const RETRY_RULE = "must be false or an object, such as { max: 3 }"

/** A retry policy; `false`: no retries, even where the method has some. */
export const RetryField = Schema.Union([Schema.Literal(false), Schema.Struct(RETRY_FIELDS)]).annotate({
  message: RETRY_RULE,
  description: "When a failed attempt is retried; `false`: never",
})

/** A repeat policy: how often a job runs again after a success. */
export const RepeatField = Schema.Struct({
  times: Times.annotate({ description: "Number of runs after the first one, each after a success" }),
  interval: Schema.optionalKey(Interval),
})

const intervals = (
  field: string,
  interval: NonNullable<RetryPolicy["interval"]>,
  refuse: Refuse,
): ReadonlyArray<number> =>
  typeof interval === "object"
    ? interval.map((each, at) => milliseconds(`${field}[${at}]`, each, refuse))
    : [milliseconds(field, interval, refuse)]

/** A retry policy in the form of the headers. Refuses a wrong duration, naming its field below `retry`. */
export const retryHeader = (policy: RetryPolicy | false, refuse: Refuse = refuseInput): RetryHeader => {
  if (policy === false) return { max: 0 }
  const { max, backoff, interval, front, on, except } = policy
  if (interval !== undefined && backoff !== undefined) {
    refuse("retry.interval", "use either `interval` or `backoff`, not both")
  }
  return compact({
    max,
    baseMs: ifGiven(backoff?.base, (base) => milliseconds("retry.backoff.base", base, refuse)),
    factor: backoff?.factor,
    maxMs: ifGiven(backoff?.max, (longest) => milliseconds("retry.backoff.max", longest, refuse)),
    jitter: backoff?.jitter,
    intervalsMs: ifGiven(interval, (given) => intervals("retry.interval", given, refuse)),
    front,
    on,
    except,
  })
}

/**
 * A repeat policy in the form of the headers, before the first run. Refuses a wrong duration, naming its field below
 * `repeat`.
 */
export const repeatHeader = (
  { times, interval }: typeof RepeatField.Type,
  refuse: Refuse = refuseInput,
): RepeatHeader => ({
  times,
  done: 0,
  intervalsMs: interval === undefined ? [0] : intervals("repeat.interval", interval, refuse),
})
