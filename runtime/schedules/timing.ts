/** When a schedule is due: cron texts, intervals and single moments. Pure: croner only computes here, nothing is started. */
import { Cron } from "croner"
import { gapEnd, wallClock } from "./wall-clock.ts"

/** When a schedule is due. Times are milliseconds since the epoch. */
export type Timing =
  | { readonly kind: "cron"; readonly cron: string; readonly timeZone: string }
  /** At `anchor`, and every `everyMs` after it. */
  | { readonly kind: "every"; readonly everyMs: number; readonly anchor: number }
  | { readonly kind: "at"; readonly at: number }

/** Most due times that are counted one by one. Where there are more, only the latest are looked up. */
const COUNTED = 1_000

/** `@daily` and the like, or five or six fields. */
const CRON = /^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|\S+(\s+\S+){4,5})$/i

/**
 * A time of day that daylight saving skips is due when the gap ends, and one that comes twice is due once, the first time.
 * Patterns with a wildcard or a step go on in real time through both.
 */
const cronOf = (cron: string, timeZone: string): Cron =>
  new Cron(cron, { timezone: timeZone, mode: "5-or-6-parts", fixedTimeRule: "no-wildcard" })

/** Why a text is no cron text, or never due after `now`; `undefined` where it is one. */
export const problemOfCron = (cron: string, timeZone: string, now: number): string | undefined => {
  const text = cron.trim()
  if (!CRON.test(text)) {
    return "must be five fields (minute, hour, day, month, weekday), or six with the second first, or a name such as @daily"
  }
  try {
    return cronOf(text, timeZone).nextRun(new Date(now)) === null
      ? "is never due, because no such day exists"
      : undefined
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    // croner counts days and months from 0 in this message.
    const named = why.replace(/(?<=Invalid value for (?:day|month): )-?\d+$/, (value) => `${Number(value) + 1}`)
    return `is not a cron expression: ${named.replace(/^CronPattern: /, "")}`
  }
}

export const isTimeZone = (name: string): boolean => {
  try {
    new Intl.DateTimeFormat("en", { timeZone: name })
    return true
  } catch {
    return false
  }
}

const NEAR_MS = 28 * 86_400_000

const floor = (time: number): number => Math.floor(time / 1_000) * 1_000

/** Whether the hour, the minute or the second of a cron text has a wildcard or a step. */
const isRepeating = (cron: string): boolean => /[*/?]/.test(cron.trim().split(/\s+/).slice(0, -3).join())

/**
 * The next time of a cron text. croner finds no time in a gap that ends at midnight, since its end lies on the next day
 * (America/Nuuk): so the same text is asked as if there were no time zone, and a time in a gap is due when the gap ends.
 */
const nextOfCron = (
  { cron: text, timeZone }: Timing & { kind: "cron" },
  cron: Cron,
  after: number,
): number | undefined => {
  const found = cron.nextRun(new Date(after))?.getTime()
  // Between two times that are near each other, with the same offset, the clocks were not set.
  const isNear = found !== undefined && found - after < NEAR_MS
  if (
    isRepeating(text) ||
    (isNear && wallClock(found, timeZone) - wallClock(after, timeZone) === floor(found) - floor(after))
  )
    return found
  const wall = cronOf(text, "UTC")
    .nextRun(new Date(wallClock(after, timeZone)))
    ?.getTime()
  const end = wall === undefined ? undefined : gapEnd(wall, timeZone)
  return end === undefined || end <= after || (found !== undefined && found <= end) ? found : end
}

/** The first due time after `after`; `undefined` where there is none any more. */
export const nextDue = (timing: Timing, after: number): number | undefined => {
  switch (timing.kind) {
    case "cron":
      return nextOfCron(timing, cronOf(timing.cron, timing.timeZone), after)
    case "every": {
      const { everyMs, anchor } = timing
      return after < anchor ? anchor : anchor + (Math.floor((after - anchor) / everyMs) + 1) * everyMs
    }
    case "at":
      return after < timing.at ? timing.at : undefined
  }
}

/** Due times in a row. */
export interface DueTimes {
  /** The latest of them, in order. */
  readonly latest: ReadonlyArray<number>
  /** How many came before the latest; of a cron text a thousand at most are counted. */
  readonly before: number
}

/** The due times from `first`, which is one, to `until`; the latest `max` of them one by one. */
export const dueTimesBetween = (timing: Timing, first: number, until: number, max: number): DueTimes => {
  if (first > until) return { latest: [], before: 0 }
  if (timing.kind === "at") return { latest: [first], before: 0 }
  if (timing.kind === "every") {
    const { everyMs } = timing
    const count = Math.floor((until - first) / everyMs) + 1
    const shown = Math.min(count, max)
    const from = count - shown
    return { latest: Array.from({ length: shown }, (_, at) => first + (from + at) * everyMs), before: from }
  }
  const cron = cronOf(timing.cron, timing.timeZone)
  const dues: Array<number> = []
  for (let due: number | undefined = first; due !== undefined && due <= until; ) {
    dues.push(due)
    if (dues.length >= COUNTED + max) return { latest: latestOf(cron, until, max), before: COUNTED }
    due = nextOfCron(timing, cron, due)
  }
  return { latest: dues.slice(-max), before: Math.max(0, dues.length - max) }
}

const latestOf = (cron: Cron, until: number, max: number): ReadonlyArray<number> =>
  cron
    // croner counts to the second: one millisecond later, a time in the second of `until` is included.
    .previousRuns(max, new Date(until + 1))
    .map((date) => date.getTime())
    .reverse()

/** A delay from 0 to `maxMs`, the same for the same seed: every scheduler finds the same one. */
export const jitterOf = (seed: string, maxMs: number): number => {
  // FNV-1a, then one round of mixing: seeds that differ in their last digits only give delays far apart.
  let hash = 0x811c9dc5
  for (let at = 0; at < seed.length; at++) hash = Math.imul(hash ^ seed.charCodeAt(at), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d)
  hash ^= hash >>> 12
  return Math.floor(((hash >>> 0) / 2 ** 32) * maxMs)
}
