/** Durations in options, and the time limits made of them: one rule for every option that takes one. */

import { durationMs, MAX_DURATION_MS, timeToLiveMs } from "../protocol/duration.ts"
import { isObject } from "../protocol/guards.ts"
import { type Refuse, refuseInput } from "./refuse.ts"

/**
 * A duration: seconds as a number (fractions are kept), or text such as `"500 ms"`, `"10s"`, `"5 minutes"` or `"1h"`.
 */
export type DurationInput = number | string

export const DURATION_RULE = "must be a duration: seconds as a number, or text such as 30s"

/** Which durations an option allows. */
export interface DurationRange {
  /** The shortest duration, in milliseconds. Defaults to 0. */
  readonly min?: number
  /** The longest duration, in milliseconds. Defaults to a hundred years. */
  readonly max?: number
  /** Whether 0 is allowed although it is shorter than `min`. Defaults to false. */
  readonly orZero?: boolean
  /** Whether a negative number is allowed, which means for ever and becomes −1. Defaults to false. */
  readonly forEver?: boolean
}

const UNITS = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
] as const

/** Milliseconds in words, in the largest unit of which they are a whole number: `1 day`, `30 minutes`, `0.5 seconds`. */
export const spoken = (ms: number): string => {
  const [unit, of] = UNITS.find(([, each]) => ms >= each && ms % each === 0) ?? ["second", 1_000]
  return `${ms / of} ${unit}${ms === of ? "" : "s"}`
}

/** Milliseconds of a duration, or a sentence that follows the name of the option. */
export const millisecondsIn = (value: DurationInput, range: DurationRange): number | string => {
  const { min = 0, max = MAX_DURATION_MS, orZero = false, forEver = false } = range
  const ms = forEver ? timeToLiveMs(value) : durationMs(value)
  if (typeof ms !== "number") return ms.message
  if ((ms >= min && ms <= max) || ms < 0 || (orZero && ms === 0)) return ms
  const text = ms > max ? `at most ${spoken(max)}` : `at least ${spoken(min)}`
  return `must be ${orZero ? "0, or " : ""}${text}`
}

/** A duration in whole milliseconds, from 0 to a hundred years. Any other value is refused with `refuse`. */
export const milliseconds = (
  field: string,
  value: DurationInput,
  refuse: Refuse = refuseInput,
  range: DurationRange = {},
): number => {
  const ms = millisecondsIn(value, range)
  return typeof ms === "number" ? ms : refuse(field, ms)
}

/** A time to live in whole milliseconds. A negative number means for ever and becomes −1. */
export const timeToLive = (field: string, value: DurationInput, refuse: Refuse = refuseInput): number =>
  milliseconds(field, value, refuse, { forEver: true })

/**
 * How long one attempt may take: seconds, or text such as `"5 minutes"`. A single duration is the hard limit; -1 is no
 * limit.
 */
export type TimeLimit =
  | DurationInput
  | {
      /**
       * After this time the handler's `signal` fires, so that it can clean up. Shorter than `hard`. Defaults to none.
       */
      readonly soft?: DurationInput | undefined
      /** After this time the attempt is over and fails with `TimeLimitExceeded`. Defaults to 30 minutes. */
      readonly hard?: DurationInput | undefined
    }

/** Hard time limit of methods and tasks that set none, so that every run ends. */
export const DEFAULT_HARD_MS = 30 * 60_000

/** Time limits in milliseconds, each more than 0. */
interface LimitsMs {
  readonly hardMs?: number
  /** Shorter than `hardMs`. */
  readonly softMs?: number
}

/** The hard limit of an attempt without one, a hundred years: it travels like any other, and every version obeys it. */
export const NO_LIMIT_MS = MAX_DURATION_MS

/** Refuses limits of 0 or less, and a soft limit that is not shorter than the hard one. */
export const checkTimeLimit = (
  { hardMs, softMs }: LimitsMs,
  names: { readonly hard: string; readonly soft: string },
  refuse: Refuse = refuseInput,
): void => {
  // `!(x > 0)` instead of `x <= 0`, so that NaN is refused, too.
  if (hardMs !== undefined && !(hardMs > 0)) refuse(names.hard, "must be more than 0")
  if (softMs !== undefined && !(softMs > 0)) refuse(names.soft, "must be more than 0")
  if (softMs !== undefined && !(softMs < (hardMs ?? Number.POSITIVE_INFINITY)))
    refuse(names.soft, `must be shorter than ${names.hard}`)
}

/** Parses and checks time limits. `prefix`: put before the names of the fields in messages. */
export const timeLimitOf = (given: TimeLimit, prefix = "timeLimit.", refuse: Refuse = refuseInput): LimitsMs => {
  const { hard, soft } = isObject(given) ? given : { hard: given, soft: undefined }
  const names = { hard: `${prefix}hard`, soft: `${prefix}soft` }
  const limit: LimitsMs = {
    ...(hard === undefined
      ? {}
      : { hardMs: hard === -1 || hard === "-1" ? NO_LIMIT_MS : milliseconds(names.hard, hard, refuse) }),
    ...(soft === undefined ? {} : { softMs: milliseconds(names.soft, soft, refuse) }),
  }
  checkTimeLimit(limit, names, refuse)
  return limit
}
