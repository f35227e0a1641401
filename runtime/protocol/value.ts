/**
 * Values that Python sends and JSON cannot express, and what they are in JavaScript:
 *
 * | on the wire                | here                | |
 * |----------------------------|---------------------|-|
 * | datetime, YAML and msgpack timestamps | {@link ExactDate} | a `Date` that keeps microseconds and zone |
 * | date, time, decimal, uuid  | {@link Exact}       | its text, and of what type |
 * | bytes, base64, `!!binary`  | `Uint8Array`        | |
 * | integer beyond ±(2⁵³−1)    | `bigint`            | |
 * | NaN, Infinity, -Infinity   | `number`            | |
 * | `!!set`                    | `Set`               | |
 * | map with keys that are not text (YAML) | `Map`   | |
 *
 * The codec that read such a value writes it back with the same meaning. A plain `Date` may be given wherever an
 * {@link ExactDate} may. Every codec refuses a map with a key `__proto__`, or with a `constructor` that holds a `prototype`,
 * when it reads and when it writes: copying such a map with `Object.assign` or a deep merge would reach into prototypes.
 */
import * as Result from "effect/Result"
import { isObject } from "./guards.ts"
import { EARLIEST_MS, formatTime, type InvalidTime, LATEST_MS, parseTimeParts } from "./time.ts"

/**
 * A `Date` that keeps the text it was parsed from: {@link text} has the microseconds and the zone, or no zone where Python's
 * datetime was naive (it then counts as UTC). A setter of `Date` discards that text.
 */
export class ExactDate extends Date {
  readonly #text: string
  readonly #ms: number

  /** `text` must be what {@link exactDate} accepted, and `ms` its milliseconds. */
  constructor(ms: number, text: string) {
    super(ms)
    this.#ms = ms
    this.#text = text
  }

  /** ISO 8601, with `T`, as it was written. */
  get text(): string {
    return this.getTime() === this.#ms ? this.#text : millisText(this)
  }
}

/** A time with seconds in its offset from UTC, as Python writes one of before the zone was standardised. */
const ZONE_SECONDS = /^(.{10}.[\d:.]+([+-])\d\d:\d\d):([0-5]\d(?:\.\d{1,6})?)$/

/** An {@link ExactDate} of ISO 8601 text, whose offset may have seconds. Fails with InvalidTime. */
export const exactDate = (text: string): Result.Result<ExactDate, InvalidTime> => {
  const [, minutes = text, sign, seconds = "0"] = ZONE_SECONDS.exec(text) ?? []
  const parsed = parseTimeParts(minutes)
  if (Result.isFailure(parsed)) return Result.fail(parsed.failure)
  const { ms, micros } = parsed.success
  const east = (sign === "-" ? -1000 : 1000) * Number(seconds)
  return Result.succeed(new ExactDate(east === 0 ? ms : Math.floor(ms + micros / 1000 - east), text))
}

/** The text of any date; empty when it is invalid or outside the years 1–9999, which no Python could read. */
export const dateText = (date: Date): string => (date instanceof ExactDate ? date.text : millisText(date))

const millisText = (date: Date): string => {
  const ms = date.getTime()
  return ms >= EARLIEST_MS && ms <= LATEST_MS ? formatTime(ms) : ""
}

type ExactType = "date" | "time" | "decimal" | "uuid"

/**
 * A date without a time, a time without a date, a decimal number or a UUID, as text: `2031-09-06`, `20:57:24.052237`,
 * `10.50`, `815ea983-9f68-4659-a8ca-24f41288d0d5`. Turns into that text by itself: in a template, in `String(…)`, in JSON.
 */
export class Exact {
  readonly type: ExactType
  readonly text: string

  constructor(type: ExactType, text: string) {
    this.type = type
    this.text = text
  }

  toString(): string {
    return this.text
  }

  toJSON(): string {
    return this.text
  }
}

const DATE = /^\d{4}-\d\d-\d\d$/
/** What Python's `time.fromisoformat` reads: no `24:00`, and no second 60. */
const TIME =
  /^(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?)?$/
const DECIMAL = /^[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|Inf(?:inity)?|s?NaN\d*)$/i
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

const isDay = (text: string): boolean => DATE.test(text) && Result.isSuccess(parseTimeParts(text))

/** The typed value of a text; `undefined` where the text is no value of that type. */
export const exact = (type: ExactType, text: string): Exact | undefined => {
  const valid =
    type === "date"
      ? isDay(text)
      : type === "time"
        ? TIME.test(text)
        : type === "decimal"
          ? DECIMAL.test(text)
          : UUID.test(text)
  return valid ? new Exact(type, type === "uuid" ? text.toLowerCase() : text) : undefined
}

/** Why a key is refused that is not safe. */
export const unsafeKey = (key: string): string =>
  `the key ${key} is refused, because it could change JavaScript's own objects`

/** Whether an entry of a map is taken; the comment at the top of this file says which are not. */
export const isSafeEntry = (key: string, value: unknown): boolean =>
  key !== "__proto__" && !(key === "constructor" && isObject(value) && Object.hasOwn(value, "prototype"))

/** Bytes as base64, with padding. */
export const encodeBase64 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64")

/** Decodes base64; blanks and line ends are skipped. Throws where the text is not base64. */
export const decodeBase64 = (text: string): Uint8Array =>
  // Node before 25 has no `Uint8Array.fromBase64`.
  hasFromBase64 ? Uint8Array.fromBase64(text) : Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))

const hasFromBase64 = "fromBase64" in Uint8Array
