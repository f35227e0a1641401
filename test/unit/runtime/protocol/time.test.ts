import { Result } from "effect"
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { MAX_DURATION_MS } from "../../../../runtime/protocol/duration.ts"
import { EARLIEST_MS, LATEST_MS } from "../../../../runtime/protocol/exact.ts"
import {
  formatTime,
  isExpired,
  parseDuration,
  parseMoment,
  parseTime,
  parseTimeParts,
} from "../../../../runtime/protocol/time.ts"

describe("parseTime", () => {
  // Each was read by dateutil 2.9's isoparse to the same moment.
  test.each([
    ["2026-11-20T17:28:52.153445+00:00", Date.UTC(2026, 10, 20, 17, 28, 52, 153)],
    ["2026-11-20T17:28:52+00:00", Date.UTC(2026, 10, 20, 17, 28, 52)],
    ["2026-11-20T17:28:52Z", Date.UTC(2026, 10, 20, 17, 28, 52)],
    ["2026-11-20t17:28:52z", Date.UTC(2026, 10, 20, 17, 28, 52)],
    ["2026-11-20 17:28:52", Date.UTC(2026, 10, 20, 17, 28, 52)],
    ["2026-11-20T17:28:52.5-05:00", Date.UTC(2026, 10, 20, 22, 28, 52, 500)],
    ["2026-11-20T17:28:52,5+0530", Date.UTC(2026, 10, 20, 11, 58, 52, 500)],
    ["20310607T080910+0530", Date.UTC(2031, 5, 7, 2, 39, 10)],
    ["20310607T080910", Date.UTC(2031, 5, 7, 8, 9, 10)],
    ["20310607T0809+05", Date.UTC(2031, 5, 7, 3, 9)],
    ["2031-06-07T08", Date.UTC(2031, 5, 7, 8)],
    ["2031-06-07T24:00", Date.UTC(2031, 5, 8)],
    ["2031-06-07", Date.UTC(2031, 5, 7)],
    ["2031-06", Date.UTC(2031, 5, 1)],
    ["2031", Date.UTC(2031, 0, 1)],
    ["20310607", Date.UTC(2031, 5, 7)],
    ["2026-W01-1", Date.UTC(2025, 11, 29)],
    ["2020W537T10", Date.UTC(2021, 0, 3, 10)],
    ["2024-366", Date.UTC(2024, 11, 31)],
    ["2024060", Date.UTC(2024, 1, 29)],
    ["2000-02-29T00:00:00-00:00", Date.UTC(2000, 1, 29)],
    ["0001-01-01T00:00:00+00:00", EARLIEST_MS],
    ["9999-12-31T23:59:59.999999+00:00", LATEST_MS],
    ["1969-12-31T23:59:59.999999+00:00", -1],
  ])("%s", (text, ms) => {
    expect(Result.getOrThrow(parseTime(text))).toBe(ms)
  })

  test.each([
    "",
    "tomorrow",
    "2026-13-01",
    "2026-02-30",
    "2025-02-29T00:00:00+00:00",
    "1900-02-29",
    "2026-1-1",
    "2026-11-20T25:00",
    "2026-11-20T24:01",
    "2026-11-20T10:60",
    "2026-11-20T10:10:60+00:00",
    "2026-11-20T10:1010",
    "2026-11-20T10:10:10.",
    "2026-11-20T10:10:10+24:00",
    "2026-11-20T10:10:10+01:60",
    "2026-11-20T10:10:10 +01:00",
    "2026-11-20T10:10:10UTC",
    "2026-11-20T",
    "2026-11T10",
    "2026T10",
    "2026-W54",
    "2026-W00-1",
    "2026-W01T10",
    "2025-366",
    "2026-000",
    "0000-01-01",
    "1795195158.72",
    " 2026-11-20",
    "x".repeat(100_000),
    "2".repeat(100_000),
  ])("refuses %.40s", (text) => {
    const failure = Result.getOrThrow(Result.flip(parseTime(text)))
    expect(failure._tag).toBe("InvalidTime")
    expect(failure.message.length).toBeLessThan(400)
  })

  test("a time without a zone is UTC and says so", () => {
    expect(Result.getOrThrow(parseTimeParts("2031-05-13T04:11:41.067741"))).toEqual({
      ms: Date.UTC(2031, 4, 13, 4, 11, 41, 67),
      micros: 741,
      zoned: false,
    })
    expect(Result.getOrThrow(parseTimeParts("2031-05-13T04:11:41Z")).zoned).toBe(true)
  })

  test("every moment reads back from the text that is written for it, by both readers", () => {
    fc.assert(
      fc.property(fc.integer({ min: EARLIEST_MS, max: LATEST_MS }), fc.integer({ min: 0, max: 999 }), (ms, micros) => {
        const text = formatTime(ms, micros)
        expect(text).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{6})?\+00:00$/)
        expect(Result.getOrThrow(parseTime(text))).toBe(ms)
        expect(Result.getOrThrow(parseTimeParts(text))).toEqual({ ms, micros, zoned: true })
      }),
    )
  })

  test("any text is a time or a failure", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(..."0123456789-:TWZ+ .") }), (text) => {
        const parsed = parseTime(text)
        if (Result.isSuccess(parsed)) expect(Number.isInteger(parsed.success)).toBe(true)
      }),
    )
  })
})

describe("formatTime", () => {
  test.each([
    [0, "1970-01-01T00:00:00+00:00"],
    [1, "1970-01-01T00:00:00.001000+00:00"],
    [1795195158723.9, "2026-11-20T17:19:18.723000+00:00"],
    [Number.NEGATIVE_INFINITY, "0001-01-01T00:00:00+00:00"],
    [1e300, "9999-12-31T23:59:59.999000+00:00"],
    [Number.NaN, "1970-01-01T00:00:00+00:00"],
  ])("%d", (ms, text) => {
    expect(formatTime(ms)).toBe(text)
  })
})

describe("parseDuration", () => {
  test.each([
    [0, 0],
    [10, 10_000],
    [0.3, 300],
    [1e-9, 1],
    ["10s", 10_000],
    ["10", 10_000],
    ["5 minutes", 300_000],
    ["1h", 3_600_000],
    ["1.1 h", 3_960_000],
    ["3d", 259_200_000],
    ["2 weeks", 1_209_600_000],
    ["20 seconds", 20_000],
    ["500 ms", 500],
    [".5s", 500],
    [" 1 Day ", 86_400_000],
    ["+1s", 1000],
    ["100 days", 8_640_000_000],
  ])("%s", (input, ms) => {
    expect(Result.getOrThrow(parseDuration(input))).toBe(ms)
  })

  test.each([
    [-1, "negative"],
    ["-5s", "negative"],
    [Number.NaN, "not a number"],
    [Number.POSITIVE_INFINITY, "hundred years"],
    ["1e9 d", "not a number with a unit"],
    ["40000 d", "hundred years"],
    [MAX_DURATION_MS / 1000 + 1, "hundred years"],
    ["9".repeat(400), "hundred years"],
    ["5 parsecs", "parsecs"],
    ["s", "not a number with a unit"],
    ["", "not a number with a unit"],
    ["1h30m", "not a number with a unit"],
    [null, "neither a number nor text"],
    [undefined, "neither a number nor text"],
    [{}, "neither a number nor text"],
    [true, "neither a number nor text"],
  ])("refuses %s and names the problem", (input, problem) => {
    expect(Result.getOrThrow(Result.flip(parseDuration(input))).message).toContain(problem)
  })
})

describe("parseMoment", () => {
  const now = Date.UTC(2026, 10, 20)

  test("a number or a duration counts from now, a time is itself", () => {
    expect(Result.getOrThrow(parseMoment(1.5, now))).toBe(now + 1500)
    expect(Result.getOrThrow(parseMoment("2 minutes", now))).toBe(now + 120_000)
    expect(Result.getOrThrow(parseMoment("2026-11-20T10:00", now))).toBe(now + 36_000_000)
  })

  test("what is neither fails", () => {
    expect(Result.isFailure(parseMoment("soon", now))).toBe(true)
    expect(Result.isFailure(parseMoment(-1, now))).toBe(true)
    expect(Result.isFailure(parseMoment([], now))).toBe(true)
  })
})

test.each<
  readonly [what: string, expires: number | null | undefined, now: number, tolerance: number, expired: boolean]
>([
  ["before its time", 100, 99, 0, false],
  ["a fraction before it", 100, 99.9, 0, false],
  ["at its time", 100, 100, 0, true],
  ["after it", 100, 101, 0, true],
  ["long after it", 100, Number.MAX_SAFE_INTEGER, 0, true],
  ["within the tolerance", 100, 599, 500, false],
  ["at the end of the tolerance", 100, 600, 500, true],
  ["at the epoch", 0, 0, 0, true],
  ["without one, in a header", null, Number.MAX_SAFE_INTEGER, 0, false],
  ["without one, in a record", undefined, Number.MAX_SAFE_INTEGER, 500, false],
])("a task %s", (_what, expires, now, tolerance, expired) => {
  expect(isExpired(expires, now, tolerance)).toBe(expired)
})
