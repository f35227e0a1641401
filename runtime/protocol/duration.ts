/** Reads durations. No library is needed for it, so that a client in a browser has the same rule. */
import { beginning } from "./text.ts"

const DAY_MS = 86_400_000

/** Longest duration that is accepted: a hundred years. A longer one is most likely in a wrong unit. */
export const MAX_DURATION_MS = 100 * 365.25 * DAY_MS

/** Input that is no duration. */
export interface InvalidDuration {
  readonly _tag: "InvalidDuration"
  readonly input: string
  readonly message: string
}

/** Milliseconds per unit, by each name of the unit. */
const UNITS: ReadonlyMap<string, number> = new Map(
  [
    { ms: 1, names: ["ms", "msec", "msecs", "milli", "millis", "millisecond", "milliseconds"] },
    { ms: 1000, names: ["s", "sec", "secs", "second", "seconds"] },
    { ms: 60_000, names: ["m", "min", "mins", "minute", "minutes"] },
    { ms: 3_600_000, names: ["h", "hr", "hrs", "hour", "hours"] },
    { ms: DAY_MS, names: ["d", "day", "days"] },
    { ms: 7 * DAY_MS, names: ["w", "week", "weeks"] },
  ].flatMap(({ ms, names }) => names.map((name): [string, number] => [name, ms])),
)

export const DURATION = /^([+-]?)(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)$/i

const invalidDuration = (input: unknown, why: string): InvalidDuration => {
  const shown =
    typeof input === "string" ? `"${beginning(input, 100)}"` : typeof input === "number" ? `${input}` : typeof input
  return {
    _tag: "InvalidDuration",
    input: shown,
    message: `${shown} is not a duration: ${why}. Use a number of seconds, or text such as "10s", "5 minutes" or "500 ms".`,
  }
}

const checkedDuration = (input: unknown, ms: number): number | InvalidDuration => {
  if (Number.isNaN(ms)) return invalidDuration(input, "it is not a number")
  if (ms < 0) return invalidDuration(input, "it is negative")
  if (ms > MAX_DURATION_MS) return invalidDuration(input, "it is longer than a hundred years")
  return ms
}

/**
 * Milliseconds of a duration: a number of seconds, with fractions, or text with a unit
 * (`10s`, `5 minutes`, `1h`, `3d`, `1.5 h`, `20 seconds`, `500 ms`, weeks at most); text without a unit is seconds.
 * Whole milliseconds, 0 to a hundred years ({@link MAX_DURATION_MS}). Otherwise {@link InvalidDuration}, which names the problem.
 */
export const durationMs = (input: unknown): number | InvalidDuration => {
  if (typeof input === "number") return checkedDuration(input, scaled(input, 1000))
  if (typeof input !== "string") return invalidDuration(input, "it is neither a number nor text")
  const match = DURATION.exec(input.trim())
  if (match === null) return invalidDuration(input, "it is not a number with a unit")
  const unit = match[3] === undefined || match[3] === "" ? 1000 : UNITS.get(match[3].toLowerCase())
  if (unit === undefined) {
    return invalidDuration(input, `"${match[3]}" is not a unit (ms, s, minutes, hours, days, weeks)`)
  }
  return checkedDuration(input, scaled(Number(match[2]), unit) * (match[1] === "-" ? -1 : 1))
}

/** A negative number as text. */
const NEGATIVE = /^-\d+(\.\d+)?$/

/** As {@link durationMs}, but a negative number, also as text, means for ever and becomes -1. */
export const timeToLiveMs = (input: unknown): number | InvalidDuration => {
  const isForEver = typeof input === "string" ? NEGATIVE.test(input.trim()) : typeof input === "number" && input < 0
  return isForEver ? -1 : durationMs(input)
}

/** Whole milliseconds, rounded, so that 0.3 s is 300 and not a little less. A duration above 0 is at least 1 ms. */
const scaled = (amount: number, unit: number): number => {
  const ms = Math.round(amount * unit)
  return ms === 0 && amount > 0 ? 1 : ms
}
