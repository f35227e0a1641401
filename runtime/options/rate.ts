/**
 * Rates, and the generic cell rate algorithm (GCRA) that keeps to them. Pure: the clock comes from outside.
 *
 * A rate is a row of moments, evenly spaced, and each start takes one of them. All that is to be remembered is the first
 * moment that nobody has taken yet.
 */
import { Result } from "effect"
import { type Refuse, refuseInput } from "./refuse.ts"

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

/** What a rate comes to; what is none is refused. */
export const rateOf = (field: string, rate: unknown, refuse: Refuse = refuseInput): Rate => {
  const parsed = parseRate(rate)
  return Result.isSuccess(parsed) ? parsed.success : refuse(field, parsed.failure)
}

/** What a high rate is worth in so much time may come at once. */
const BURST_MS = 100

/** How many may come at once after a pause: one, or what a high rate is worth in a tenth of a second. */
export const burstOf = ({ intervalMs }: Rate): number => Math.max(1, Math.floor(BURST_MS / intervalMs))

/** A start may come so much later than the moment that was meant for it, of a rate that is not slow. */
const LATE_MS = 300
/** The time in which no more may start than the rate says, and one. */
const MINUTE_MS = 60_000

/** How much later than its moment a start may come: a slow rate has time, but two must not meet. */
export const latenessOf = ({ intervalMs }: Rate): number => Math.max(LATE_MS, 0.9 * intervalMs)

/**
 * Milliseconds from one moment to the next. A minute may hold what was late from before it: that is made up for by moments
 * that are half a percent further apart, where a late one could be one too many.
 */
export const spacingOf = (rate: Rate): number => {
  const { intervalMs } = rate
  return latenessOf(rate) < intervalMs ? intervalMs : intervalMs * (1 + LATE_MS / MINUTE_MS)
}

export interface Reserved {
  /** The first of the moments that were taken, the others follow at {@link spacingOf}. */
  readonly first: number
  /** 0 to what was wanted. */
  readonly count: number
  /** To be remembered: the first moment that nobody has taken. */
  readonly tat: number
  /** Milliseconds until one more can be taken; 0 when it could be now. */
  readonly waitMs: number
}

// Sums of fractions of a millisecond are a little off.
const ROUNDING = 1e-6

/**
 * Takes up to `wanted` moments for starts that are not later than `now + aheadMs`, in milliseconds. `tat` is what the last
 * call gave; absent: nothing was taken yet. After a pause the burst lies in the past, and may start at once.
 */
export const reserve = (
  rate: Rate,
  tat: number | undefined,
  now: number,
  { wanted, aheadMs }: { readonly wanted: number; readonly aheadMs: number },
): Reserved => {
  const spacing = spacingOf(rate)
  const until = now + aheadMs
  // Nobody takes later ones: a clock that was set back, or a rate that was lower, must not block for long.
  const known = Math.min(tat ?? Number.NEGATIVE_INFINITY, until + spacing)
  const first = Math.max(known, now - (burstOf(rate) - 1) * spacing)
  const room = Math.max(0, Math.floor((until - first) / spacing + ROUNDING) + 1)
  const count = Math.min(wanted, room)
  const next = first + count * spacing
  return { first, count, tat: next, waitMs: Math.max(0, next - until) }
}
