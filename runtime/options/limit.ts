/**
 * The option `limit` of a method, checked once, when the actor is defined; rates, and the generic cell rate algorithm (GCRA)
 * that enforces them. Pure: the caller passes the time.
 *
 * A rate is a series of evenly spaced moments, and each start of a job takes one of them. The only state is the first
 * moment that is not taken yet, which GCRA calls TAT (theoretical arrival time).
 */

import type { StandardSchemaV1 } from "@standard-schema/spec"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { isPromiseLike } from "../async/timers.ts"
import { compact, ifGiven } from "../protocol/compact.ts"
import { fieldOf, isTenant, TENANT_RULE } from "../protocol/name.ts"
import { didYouMean } from "../protocol/suggest.ts"
import { whole } from "./fields.ts"
import { fieldsOf } from "./json-schema.ts"
import { refuseInput } from "./refuse.ts"

/**
 * How often jobs of a method may start, and how many may run at a time, over all workers together; with a key, per
 * tenant.
 */
export interface MethodLimit {
  readonly rate?: Rate
  readonly concurrency?: number
  /** Names the tenant of a job: a field of the input, or a function of the input. */
  readonly key?: string | ((input: unknown) => unknown)
}

export const RateField = Schema.Union([Schema.Number, Schema.String]).annotate({
  message: 'must be a rate, such as "10/m", "100/s" or 5 per second',
})

const MAX_FIELD_BYTES = 255

const isKey = (value: unknown): value is NonNullable<MethodLimit["key"]> =>
  typeof value === "function" ||
  (typeof value === "string" && value.isWellFormed() && value !== "" && Buffer.byteLength(value) <= MAX_FIELD_BYTES)

const limitFields = {
  rate: Schema.optionalKey(RateField),
  concurrency: Schema.optionalKey(whole({ min: 1, max: 100_000 })),
  key: Schema.optionalKey(
    Schema.declare(isKey, {
      expected: `the name of a field of the input, of 1 to ${MAX_FIELD_BYTES} bytes, or a function`,
    }),
  ),
} satisfies Record<keyof MethodLimit, unknown>

/** A limit as it is given. */
export const LimitField = Schema.Struct(limitFields).annotate({
  message: "must be an object with rate, concurrency or both, and optionally key",
})

/** Parses the rate of a limit. `input`: schema of the method's input, by which the name of the key is checked. */
export const methodLimitOf = (limit: typeof LimitField.Type, input: StandardSchemaV1 | undefined): MethodLimit => {
  const { rate, concurrency, key } = limit
  if (rate === undefined && concurrency === undefined) refuseInput("limit", "needs rate, concurrency or both")
  if (typeof key === "string" && input !== undefined) checkKey(key, fieldsOf(input))
  return compact({ concurrency, key, rate: ifGiven(rate, (given) => rateOf("limit.rate", given)) })
}

const checkKey = (key: string, fields: ReadonlyArray<string> | undefined): void => {
  if (fields === undefined || fields.includes(key)) return
  const name = JSON.stringify(key)
  refuseInput(
    "limit.key",
    `${name} is not a field of the input${didYouMean(key, fields)}: it has ${fields.join(", ") || "none"}`,
  )
}

/**
 * The tenant of a job: the value that the key of its method's limit takes from the input; "" for a limit without a key.
 * Fails with a sentence that says what is wrong with the value; throws what a key that is a function throws.
 */
export const tenantOf = (key: MethodLimit["key"], input: unknown): Result.Result<string, string> => {
  if (key === undefined) return Result.succeed("")
  const tenant = typeof key === "string" ? fieldOf(input, key) : key(input)
  // A promise is not a valid tenant; its rejection must not stay unhandled.
  if (isPromiseLike(tenant)) tenant.then(undefined, () => undefined)
  if (isTenant(tenant)) return Result.succeed(tenant)
  const rule = typeof key === "string" ? `limit.key: the field ${key} must be` : "limit.key must return"
  return Result.fail(`${rule} ${TENANT_RULE}, not ${kindOf(tenant)}`)
}

const kindOf = (value: unknown): string => {
  if (typeof value === "string") return `${Buffer.byteLength(value)} bytes`
  return value === null ? "null" : typeof value
}

/**
 * A rate: `"100/s"`, `"10/m"`, `"1/h"` (as Celery writes it), or a number per second. Starts are evenly spaced: `10/m`
 * is one every 6 s.
 */
export type RateInput = number | string

export interface Rate {
  /** Milliseconds from one start to the next. */
  readonly intervalMs: number
}

const UNITS_MS: ReadonlyMap<string, number> = new Map([
  ["s", 1_000],
  ["m", 60_000],
  ["h", 3_600_000],
])

const RATE = /^\s*(\d+(?:\.\d*)?|\.\d+)\s*(?:\/\s*([a-z]+)\s*)?$/i
const MAX_PER_SECOND = 1_000_000
const MAX_INTERVAL_MS = 31 * 86_400_000

/** Parses a rate, from one in 31 days to 1,000,000 per second. Fails with a sentence that says what is wrong. */
export const parseRate = (input: unknown): Result.Result<Rate, string> => {
  const text = typeof input === "number" || typeof input === "string" ? String(input) : typeof input
  const refuse = (why: string) =>
    Result.fail(
      `${JSON.stringify(text.slice(0, 60))} is not a rate: ${why}. Write "10/m", "100/s" or "1/h", for example`,
    )
  if (typeof input !== "number" && typeof input !== "string") return refuse("it is neither a number nor text")
  const match = typeof input === "string" ? RATE.exec(input) : undefined
  if (match === null) return refuse("it is not a number with /s, /m or /h")
  const count = typeof input === "number" ? input : Number(match?.[1])
  const unitMs = UNITS_MS.get((match?.[2] ?? "s").toLowerCase())
  if (unitMs === undefined) return refuse("its unit must be s, m or h")
  if (!(count > 0)) return refuse("it must be more than 0")
  const intervalMs = unitMs / count
  if (!(intervalMs * MAX_PER_SECOND >= 1_000)) return refuse(`it is more than ${MAX_PER_SECOND} per second`)
  if (!(intervalMs <= MAX_INTERVAL_MS)) return refuse("it is less than one in 31 days")
  return Result.succeed({ intervalMs })
}

/** {@link parseRate}, which throws `invalid-input` for a wrong value. */
export const rateOf = (field: string, rate: unknown): Rate => {
  const parsed = parseRate(rate)
  return Result.isSuccess(parsed) ? parsed.success : refuseInput(field, parsed.failure)
}

// Sums of fractions of a millisecond have rounding errors.
const ROUNDING = 1e-6

/** A rate as it is written, by the smallest unit in which it is one or more: `10/m`. */
export const rateText = ({ intervalMs }: Rate): string => {
  const [unit, ms] = [...UNITS_MS].find(([, each]) => each / intervalMs >= 1 - ROUNDING) ?? ["h", 3_600_000]
  return `${Number((ms / intervalMs).toPrecision(6))}/${unit}`
}

/** As many jobs as a rate allows in this time may start at once. */
const BURST_MS = 100

/** How many jobs may start at once after a pause: as many as the rate allows in a tenth of a second, 1 at least. */
export const burstOf = ({ intervalMs }: Rate): number => Math.max(1, Math.floor(BURST_MS / intervalMs))

/** How much later than its moment a job may start, in milliseconds, where the rate is not slow. */
const LATE_MS = 300
/** In any span of this length no more jobs start than the rate allows, plus one. */
const MINUTE_MS = 60_000

/**
 * How much later than its moment a job may start. A slow rate allows more, but less than its interval, so that two
 * starts never meet.
 */
const latenessOf = ({ intervalMs }: Rate): number => Math.max(LATE_MS, 0.9 * intervalMs)

/**
 * Milliseconds from one moment to the next. A minute may also hold starts that are late from the minute before. Where one
 * of these would be one too many, the moments are half a percent further apart.
 */
export const spacingOf = (rate: Rate): number => {
  const { intervalMs } = rate
  return latenessOf(rate) < intervalMs ? intervalMs : intervalMs * (1 + LATE_MS / MINUTE_MS)
}

interface Reserved {
  /** The first moment that was taken; the others follow at intervals of {@link spacingOf}. */
  readonly first: number
  /** Number of moments that were taken, 0 to `wanted`. */
  readonly count: number
  /** The state to keep: the first moment that is not taken. */
  readonly tat: number
  /** Milliseconds until another moment can be taken; 0: now. */
  readonly waitMs: number
}

/**
 * Takes up to `wanted` moments that are not later than `now + aheadMs`, in milliseconds. `tat`: the state that the last call
 * returned; absent: no moment was taken yet. After a pause the moments of a burst lie in the past: these jobs start at once.
 */
export const reserve = (
  rate: Rate,
  tat: number | undefined,
  now: number,
  { wanted, aheadMs }: { readonly wanted: number; readonly aheadMs: number },
): Reserved => {
  const spacing = spacingOf(rate)
  const until = now + aheadMs
  // Later moments are never taken, so a TAT beyond them comes from a clock that was set back, or from a lower rate. It
  // must not block for long.
  const known = Math.min(tat ?? Number.NEGATIVE_INFINITY, until + spacing)
  const first = Math.max(known, now - (burstOf(rate) - 1) * spacing)
  const room = Math.max(0, Math.floor((until - first) / spacing + ROUNDING) + 1)
  const count = Math.min(wanted, room)
  const next = first + count * spacing
  return { first, count, tat: next, waitMs: Math.max(0, next - until) }
}

/** Tokens of a rate that this worker has taken from the shared state for its next starts. */
export class RateTokens {
  readonly #spacing: number
  readonly #lateness: number
  readonly #burst: number
  /** Grants of tokens, ordered by time: the time of the first token, and how many follow at the rate's spacing. */
  #grants: Array<{ readonly at: number; readonly count: number }> = []
  #grantSize = 0

  constructor(rate: Rate) {
    this.#spacing = spacingOf(rate)
    this.#lateness = latenessOf(rate)
    this.#burst = burstOf(rate)
  }

  /** Adds a grant whose first token is due at `at`. */
  add(at: number, count: number): void {
    if (count > 0) this.#grants.push({ at, count })
  }

  /** Number of tokens that have not expired. */
  left(now: number): number {
    this.#forget(now)
    return this.#grants.reduce((sum, { count }) => sum + count, 0)
  }

  /** When the next token is due; `undefined`: there is none. */
  next(now: number): number | undefined {
    this.#forget(now)
    return this.#grants[0]?.at
  }

  /** Uses the first token. */
  use(): void {
    this.#drop(1)
  }

  /**
   * Tokens to take at least with the next write. It doubles while all tokens are used, so that a high rate costs few
   * writes.
   */
  get grantSize(): number {
    this.#grantSize = Math.min(this.#burst, Math.max(1, this.#grantSize * 2))
    return this.#grantSize
  }

  #forget(now: number): void {
    for (let first = this.#grants[0]; first !== undefined; first = this.#grants[0]) {
      const lapsed = Math.ceil((now - this.#lateness - first.at) / this.#spacing)
      if (lapsed <= 0) return
      this.#grantSize = 0
      this.#drop(Math.min(lapsed, first.count))
    }
  }

  #drop(some: number): void {
    const [first, ...rest] = this.#grants
    if (first === undefined) return
    const count = first.count - some
    this.#grants = count > 0 ? [{ at: first.at + some * this.#spacing, count }, ...rest] : rest
  }
}
