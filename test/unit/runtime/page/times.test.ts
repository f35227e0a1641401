/** Times and numbers as the page writes them. */
import fc from "fast-check"
import { expect, test } from "vitest"
import {
  bothZones,
  bytes,
  countdown,
  duration,
  exactClock,
  percent,
  relative,
  roughly,
  short,
  shortStamp,
  stamp,
} from "../../../../runtime/page/times.ts"

test.each([
  [-3, "0 s"],
  [0, "0 s"],
  [0.0001, "1 ms"],
  [0.24, "240 ms"],
  [0.9996, "1.0 s"],
  [1.24, "1.2 s"],
  [9.96, "10 s"],
  [59.6, "1 m 00 s"],
  [61, "1 m 01 s"],
  [3599.7, "1 h 00 m"],
  [6600, "1 h 50 m"],
  [86_400, "1 d 0 h"],
  [30 * 86_400, "30 d"],
])("%d s is %s", (seconds, text) => {
  expect(duration(seconds)).toBe(text)
})

test("a duration never goes back as it grows", () => {
  const inSeconds = (text: string): number =>
    [...text.matchAll(/([\d.]+) (ms|s|m|h|d)/g)].reduce(
      (sum, [, n, unit]) => sum + Number(n) * { ms: 0.001, s: 1, m: 60, h: 3600, d: 86_400 }[unit as "s"],
      0,
    )
  fc.assert(
    fc.property(
      fc.double({ min: 0, max: 1e7, noNaN: true }),
      fc.double({ min: 0, max: 1e6, noNaN: true }),
      (a, more) => {
        expect(inSeconds(duration(a + more))).toBeGreaterThanOrEqual(inSeconds(duration(a)))
      },
    ),
  )
})

const AT = Date.parse("2026-11-22T03:07:19.041Z")

test("a moment is told from now, and what is a little ahead of this clock is now", () => {
  expect(relative(AT, AT + 5_400)).toBe("5 s ago")
  expect(relative(AT, AT - 700)).toBe("0 s ago")
  expect(relative(AT, AT - 120_000)).toBe("in 2 m")
  expect(relative(AT, AT + 49 * 3_600_000)).toBe("2 d ago")
  expect(roughly(3 * 3600 + 59)).toBe("3 h")
})

test("a moment is told in the zone of the switch, and in both where one points at it", () => {
  expect(stamp(AT, "UTC")).toBe("2026-11-22 03:07:19")
  expect(stamp(AT, "Europe/Berlin")).toBe("2026-11-22 04:07:19")
  expect(stamp(AT, "America/New_York")).toBe("2026-11-21 22:07:19")
  expect(exactClock(AT, "UTC")).toBe("03:07:19.041")
  expect(bothZones(AT, "UTC")).toBe("2026-11-22 03:07:19 UTC")
  expect(bothZones(AT, "Europe/Berlin")).toBe("2026-11-22 03:07:19 UTC, 04:07:19 in Europe/Berlin")
  expect(bothZones(AT, "America/New_York")).toBe("2026-11-22 03:07:19 UTC, 2026-11-21 22:07:19 in America/New_York")
})

test("midnight is 00, and a moment of another day has its date", () => {
  const midnight = Date.parse("2026-11-22T00:00:00Z")
  expect(shortStamp(midnight, AT, "UTC")).toBe("00:00:00")
  expect(shortStamp(midnight - 1, AT, "UTC")).toBe("2026-11-21 23:59:59")
})

test.each([
  [-5, "0:00"],
  [134_000, "2:14"],
  [3_729_000, "1:02:09"],
])("%d ms are counted down as %s", (ms, text) => {
  expect(countdown(ms)).toBe(text)
})

test.each([
  [437, "437"],
  [8391, "8,391"],
  [41_882, "41.9k"],
  [412_345, "412k"],
  [999_999, "1.0M"],
  [1_234_567, "1.2M"],
])("%d takes the room of %s", (n, text) => {
  expect(short(n)).toBe(text)
})

test("a part is neither rounded to nothing nor to all", () => {
  expect([0, 0.0004, 0.009, 0.5, 0.96, 0.9996, 1].map(percent)).toEqual([
    "0 %",
    "< 0.1 %",
    "0.9 %",
    "50 %",
    "96 %",
    "> 99 %",
    "100 %",
  ])
})

test("bytes", () => {
  expect([214, 1536, 65_536, 1_048_576].map(bytes)).toEqual(["214 B", "1.5 KiB", "64 KiB", "1.0 MiB"])
})
