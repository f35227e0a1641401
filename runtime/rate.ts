/**
 * Rates, and the generic cell rate algorithm (GCRA) that keeps to them. Pure: the clock comes from outside.
 *
 * All that is to be remembered of a rate is one moment: when the next one would be due if all came evenly spaced.
 */
import { Result } from "effect"

/** How often: `"100/s"`, `"10/m"`, `"1/h"` (Celery's form), or a number per second. Evenly spaced: 10/m is one each 6 s. */
export type RateInput = number | string

export interface Rate {
  /** Milliseconds from one to the next. */
  readonly intervalMs: number
}

const UNITS_MS: ReadonlyMap<string, number> = new Map([
  ["s", 1_000],
  ["m", 60_000],
  ["h", 3_600_000],
])

const RATE = /^\s*(\d+(?:\.\d*)?|\.\d+)\s*(?:\/\s*([a-z]+)\s*)?$/i
const MOST_PER_SECOND = 1_000_000
const LONGEST_INTERVAL_MS = 31 * 86_400_000

/** Reads a rate: more than 0, from one in 31 days to 1,000,000 per second. Fails with what is wrong, in words. */
export const parseRate = (input: unknown): Result.Result<Rate, string> => {
  const text = typeof input === "number" || typeof input === "string" ? String(input) : typeof input
  const refuse = (why: string) =>
    Result.fail(
      `${JSON.stringify(text.slice(0, 60))} is not a rate: ${why}. Write for instance "10/m", "100/s" or "1/h"`,
    )
  if (typeof input !== "number" && typeof input !== "string") return refuse("it is neither a number nor text")
  const match = typeof input === "string" ? RATE.exec(input) : undefined
  if (match === null) return refuse("it is not a number with /s, /m or /h")
  const count = typeof input === "number" ? input : Number(match?.[1])
  const unitMs = UNITS_MS.get((match?.[2] ?? "s").toLowerCase())
  if (unitMs === undefined) return refuse("its unit must be s, m or h")
  if (!(count > 0)) return refuse("it must be more than 0")
  const intervalMs = unitMs / count
  if (!(intervalMs * MOST_PER_SECOND >= 1_000)) return refuse(`it is more than ${MOST_PER_SECOND} per second`)
  if (!(intervalMs <= LONGEST_INTERVAL_MS)) return refuse("it is less than one in 31 days")
  return Result.succeed({ intervalMs })
}

/** What comes at a high rate is counted in portions that are worth so much time. */
const PORTION_MS = 100

/** How many may come at once after a pause: one, or what a high rate is worth in a tenth of a second. */
export const burstOf = ({ intervalMs }: Rate): number => Math.max(1, Math.floor(PORTION_MS / intervalMs))

export interface Taken {
  /** 0 to what was wanted. */
  readonly granted: number
  /** To be remembered: the theoretical arrival time of the next. */
  readonly tat: number
  /** Milliseconds until one more is granted; 0 when it would be now. */
  readonly waitMs: number
}

// Sums of fractions of a millisecond are a little off.
const ROUNDING = 1e-6

/**
 * Takes up to `wanted` at the time `now`, in milliseconds. `tat` is what the last call gave; absent: nothing was taken yet.
 * Within any time t no more is granted than the burst and what the rate is worth in t.
 */
export const take = (rate: Rate, tat: number | undefined, now: number, wanted: number): Taken => {
  const { intervalMs } = rate
  const burstMs = burstOf(rate) * intervalMs
  // Never later than a full burst from now: a clock that was set back, or a rate that was lower, must not block for long.
  const from = Math.min(Math.max(tat ?? now, now), now + burstMs)
  const room = Math.max(0, Math.floor((burstMs - (from - now)) / intervalMs + ROUNDING))
  const granted = Math.min(wanted, room)
  const next = from + granted * intervalMs
  return { granted, tat: next, waitMs: Math.max(0, next + intervalMs - burstMs - now) }
}
