/**
 * Parses and formats times and durations. Times are parsed as by a Celery worker, and always written with a zone.
 *
 * Nothing here reads a clock: functions that need the current time take it as a parameter.
 */

import * as Result from "effect/Result"
import { DURATION, durationMs, type InvalidDuration, timeToLiveMs } from "./duration.ts"
import { EARLIEST_MS, LATEST_MS } from "./exact.ts"
import { cut } from "./text.ts"

/** Text that is no time. `input`: the text, cut to 100 characters. */
export interface InvalidTime {
  readonly _tag: "InvalidTime"
  readonly input: string
  readonly message: string
}

/** A time as it was written. */
export interface ParsedTime {
  /** Milliseconds since the epoch, rounded down. Without a zone in the text: as if it had been UTC. */
  readonly ms: number
  /** Whether the text named a zone. */
  readonly zoned: boolean
  /** Microseconds beyond {@link ms}, 0–999. Text finer than a microsecond is cut, as Python cuts it. */
  readonly micros: number
}

const DAY_MS = 86_400_000

/**
 * Days from 1970-01-01 to a date of the Gregorian calendar, also before it began. (Date.UTC takes the years 0–99 for
 * 1900–1999.)
 */
const daysFromCivil = (year: number, month: number, day: number): number => {
  const y = month <= 2 ? year - 1 : year
  const era = Math.floor(y / 400)
  const yearOfEra = y - era * 400
  const dayOfYear = Math.floor((153 * (month + (month > 2 ? -3 : 9)) + 2) / 5) + day - 1
  return era * 146_097 + yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear - 719_468
}

const isLeap = (year: number): boolean => (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0

const MONTH_DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

const daysInMonth = (year: number, month: number): number =>
  month === 2 && isLeap(year) ? 29 : (MONTH_DAYS[month - 1] ?? 0)

/** Days from 1970-01-01 to the Monday of ISO week 1. */
const firstMonday = (year: number): number => {
  const january4 = daysFromCivil(year, 1, 4)
  return january4 - ((((january4 + 3) % 7) + 7) % 7)
}

/*
 * dateutil's isoparse: a date (calendar, week or ordinal; basic or extended, not mixed), then, after any one character,
 * a time (hours, or with minutes, or with seconds and a fraction; basic or extended), then a zone.
 */
const DATE = /^(\d{4})(?:(-?)W(\d\d)(?:\2([1-7]))?|-(\d\d)-(\d\d)|(\d\d)(\d\d)|-?(\d{3})|-(\d\d))?(?=\D|$)/
const TIME = /^(\d\d)(?:(:?)(\d\d)(?:\2(\d\d)(?:[.,](\d+))?)?)?(Z|z|[+-]\d\d(?::?\d\d)?)?$/

const invalidTime = (text: string, why: string): Result.Result<never, InvalidTime> => {
  const input = cut(text, 100)
  return Result.fail({
    _tag: "InvalidTime",
    input,
    message: `"${input}" is not a time: ${why}. Write it as ISO 8601, such as 2031-06-07T08:09:10Z.`,
  })
}

/** Days since 1970-01-01 of a match of {@link DATE}, or why there is no such day. */
const dayOf = (match: RegExpExecArray): number | string => {
  const year = Number(match[1])
  if (year < 1) return "years start with 0001"
  if (match[3] !== undefined) {
    const week = Number(match[3])
    // dateutil lets week 53 run over into the next year where there is none.
    if (week < 1 || week > 53) return `${year} has no week ${match[3]}`
    return firstMonday(year) + (week - 1) * 7 + Number(match[4] ?? 1) - 1
  }
  if (match[9] !== undefined) {
    const ordinal = Number(match[9])
    if (ordinal < 1 || ordinal > (isLeap(year) ? 366 : 365)) return `${year} has no day ${match[9]}`
    return daysFromCivil(year, 1, 1) + ordinal - 1
  }
  const month = Number(match[5] ?? match[7] ?? match[10] ?? 1)
  const day = Number(match[6] ?? match[8] ?? 1)
  if (month < 1 || month > 12) return `there is no month ${month}`
  if (day < 1 || day > daysInMonth(year, month)) return `that month has no day ${day}`
  return daysFromCivil(year, month, day)
}

/** Milliseconds east of UTC, or nothing when the zone is out of range. Python: less than 24 hours, minutes below 60. */
const zoneOffset = (zone: string): number | undefined => {
  if (zone === "Z" || zone === "z") return 0
  const hours = Number(zone.slice(1, 3))
  const minutes = zone.length === 3 ? 0 : Number(zone.slice(-2))
  if (hours > 23 || minutes > 59) return undefined
  return (zone.charCodeAt(0) === 0x2d ? -1 : 1) * (hours * 60 + minutes) * 60_000
}

/** As {@link parseTime}, with the microseconds and whether there is a zone, which milliseconds cannot tell. */
export const parseTimeParts = (text: string): Result.Result<ParsedTime, InvalidTime> => {
  const date = DATE.exec(text)
  if (date === null) return invalidTime(text, "it does not start with a date")
  const days = dayOf(date)
  if (typeof days === "string") return invalidTime(text, days)
  const whole = date[0].length === text.length
  const hasDay = date[0].length > 4 && date[10] === undefined && (date[3] === undefined || date[4] !== undefined)
  if (!whole && !hasDay) {
    return invalidTime(text, "a time of day needs a full date before it")
  }
  if (whole) return Result.succeed({ ms: days * DAY_MS, zoned: false, micros: 0 })
  const time = TIME.exec(text.slice(date[0].length + 1))
  if (time === null) return invalidTime(text, "the date is not followed by a time of day with an optional zone")
  const hours = Number(time[1])
  const minutes = Number(time[3] ?? 0)
  const seconds = Number(time[4] ?? 0)
  const micros = time[5] === undefined ? 0 : Number(time[5].slice(0, 6).padEnd(6, "0"))
  const midnight = hours === 24 && minutes === 0 && seconds === 0 && micros === 0
  if ((hours > 23 && !midnight) || minutes > 59 || seconds > 59)
    return invalidTime(text, "there is no such time of day")
  const zone = time[6]
  const offset = zone === undefined ? 0 : zoneOffset(zone)
  if (offset === undefined) return invalidTime(text, `${zone} is not an offset from UTC`)
  const ms = days * DAY_MS + hours * 3_600_000 + minutes * 60_000 + seconds * 1000 + Math.floor(micros / 1000) - offset
  return Result.succeed({ ms, zoned: zone !== undefined, micros: micros % 1000 })
}

/**
 * Milliseconds since the epoch of an ISO 8601 text, rounded down.
 *
 * Reads what dateutil's `isoparse` reads, as a Celery worker does: extended (`2031-06-07T08:09:10.123456+05:30`) and
 * basic (`20310607T080910Z`) format, a blank or any other single character instead of `T`, parts left out at the end, a
 * comma before the fraction, week and ordinal dates, `24:00`. Without a zone it is UTC (Celery 5.6: for every setting of
 * `enable_utc` and `timezone`). Fails with {@link InvalidTime}.
 */
export const parseTime = (text: string): Result.Result<number, InvalidTime> => {
  const fast = canonicalMs(text)
  if (fast !== undefined) return Result.succeed(fast)
  const parsed = parseTimeParts(text)
  return Result.isFailure(parsed) ? Result.fail(parsed.failure) : Result.succeed(parsed.success.ms)
}

const digits2 = (text: string, at: number): number => {
  const tens = text.charCodeAt(at) - 48
  const ones = text.charCodeAt(at + 1) - 48
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? tens * 10 + ones : Number.NaN
}

/**
 * Parses the form that Python's `isoformat` writes in UTC, without a regular expression, because it is the usual one;
 * `undefined` for every other form.
 */
const canonicalMs = (text: string): number | undefined => {
  const length = text.length
  if (length !== 25 && length !== 32) return undefined
  if (!text.endsWith("+00:00") || text[4] !== "-" || text[7] !== "-" || text[10] !== "T") return undefined
  if (text[13] !== ":" || text[16] !== ":" || (length === 32 && text[19] !== ".")) return undefined
  const year = digits2(text, 0) * 100 + digits2(text, 2)
  const month = digits2(text, 5)
  const day = digits2(text, 8)
  const hours = digits2(text, 11)
  const minutes = digits2(text, 14)
  const seconds = digits2(text, 17)
  const micros = length === 25 ? 0 : digits2(text, 20) * 10_000 + digits2(text, 22) * 100 + digits2(text, 24)
  if (!(year >= 1 && month >= 1 && month <= 12 && day >= 1 && day <= daysInMonth(year, month))) return undefined
  if (!(hours < 24 && minutes < 60 && seconds < 60 && micros >= 0)) return undefined
  const ofDay = hours * 3_600_000 + minutes * 60_000 + seconds * 1000 + Math.floor(micros / 1000)
  return daysFromCivil(year, month, day) * DAY_MS + ofDay
}

/**
 * A time as Python's `isoformat` writes it, in UTC: `2026-11-20T17:28:52.153000+00:00`, without a fraction when there is
 * none. `micros` (0–999) is added to whole milliseconds. What lies outside the years 1–9999 is written as the nearest
 * end of that range, because no Celery could read it.
 */
export const formatTime = (ms: number, micros = 0): string => {
  const whole = Math.floor(Math.min(Math.max(Number.isNaN(ms) ? 0 : ms, EARLIEST_MS), LATEST_MS))
  const second = Math.floor(whole / 1_000)
  if (second !== written.second) {
    const last = written
    written = second === before.second ? before : { second, text: new Date(second * 1_000).toISOString().slice(0, 19) }
    before = last
  }
  const fraction = (whole - second * 1_000) * 1_000 + micros
  return fraction === 0 ? `${written.text}+00:00` : `${written.text}.${String(fraction).padStart(6, "0")}+00:00`
}

/** The seconds that were written last: most times of a record are in one or two, and writing one takes long. */
let written = { second: Number.NaN, text: "" }
let before = written

/** As {@link durationMs}. Fails with {@link InvalidDuration}. */
export const parseDuration = (input: unknown): Result.Result<number, InvalidDuration> => resultOf(durationMs(input))

/** As {@link timeToLiveMs}. Fails with {@link InvalidDuration}. */
export const parseTimeToLive = (input: unknown): Result.Result<number, InvalidDuration> => resultOf(timeToLiveMs(input))

const resultOf = (ms: number | InvalidDuration): Result.Result<number, InvalidDuration> =>
  typeof ms === "number" ? Result.succeed(ms) : Result.fail(ms)

/**
 * A moment: a number or a duration counts from `now`, any other text is a time.
 * Milliseconds since the epoch. Fails with {@link InvalidDuration} or {@link InvalidTime}.
 */
export const parseMoment = (input: unknown, now: number): Result.Result<number, InvalidDuration | InvalidTime> => {
  if (typeof input === "string" && !DURATION.test(input.trim())) return parseTime(input.trim())
  const duration = parseDuration(input)
  return Result.isFailure(duration) ? duration : Result.succeed(now + duration.success)
}

/**
 * Whether a task has expired. It must start before its `expires`; at that very moment it is too late. A task without `expires` never expires.
 * Only `expires` is read, so that a task whose body cannot be decoded expires, too. `toleranceMs`: for a reader that learns of a start only some time after it.
 */
export const isExpired = (expires: number | null | undefined, now: number, toleranceMs = 0): boolean =>
  expires !== null && expires !== undefined && expires + toleranceMs <= now
