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
import { Exact, ExactDate, type ExactType } from "./exact.ts"
import { type InvalidTime, parseTimeParts } from "./time.ts"

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
