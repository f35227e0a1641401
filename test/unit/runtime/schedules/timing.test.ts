/** When schedules are due: next times, times in a row, daylight saving, jitter. */
import { describe, expect, test } from "vitest"
import {
  dueTimesBetween,
  isTimeZone,
  jitterOf,
  nextDue,
  problemOfCron,
  type Timing,
} from "../../../../runtime/schedules/timing.ts"

const at = (text: string): number => Date.parse(text)
const cron = (text: string, timeZone = "UTC"): Timing => ({ kind: "cron", cron: text, timeZone })
const every = (seconds: number, anchor: string): Timing => ({
  kind: "every",
  everyMs: seconds * 1_000,
  anchor: at(anchor),
})

/** The next due times after a moment, as hours and minutes of the zone, the day before them where that is another one. */
const following = (timing: Timing, after: string, count: number, timeZone: string): ReadonlyArray<string> => {
  const shown: Array<string> = []
  for (let due = nextDue(timing, at(after)); due !== undefined && shown.length < count; due = nextDue(timing, due)) {
    const [day = "", time = ""] = new Date(due).toLocaleString("sv", { timeZone }).split(" ")
    shown.push(`${day.slice(5)} ${time.slice(0, 5)} ${new Date(due).toISOString().slice(11, 16)}Z`)
  }
  return shown
}

test.each([
  ["0 7 * * mon", "2026-01-01T00:00:00Z", "2026-01-05T07:00:00Z"],
  ["0 7 * * MON", "2026-01-05T07:00:00Z", "2026-01-12T07:00:00Z"],
  ["*/10 * * * * *", "2026-01-01T00:00:01.5Z", "2026-01-01T00:00:10Z"],
  ["0 0 1 1 *", "2026-11-23T06:00:00Z", "2027-01-01T00:00:00Z"],
  ["0 0 29 feb *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"],
  ["0 0 13 * fri", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"],
  ["@daily", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"],
  ["0 0 L * *", "2026-02-01T00:00:00Z", "2026-02-28T00:00:00Z"],
  ["0 0 * * mon#2", "2026-01-01T00:00:00Z", "2026-01-12T00:00:00Z"],
])("%s after %s: %s", (text, after, due) => {
  expect(problemOfCron(text, "UTC", at(after))).toBeUndefined()
  expect(nextDue(cron(text), at(after))).toBe(at(due))
})

test.each([
  ["a zone", cron("0 7 * * *", "Asia/Tokyo"), "2026-01-01T00:00:00Z", "2026-01-01T22:00:00Z"],
  ["an interval from its anchor", every(60, "2026-01-01T00:00:30Z"), "2026-01-01T00:05:00Z", "2026-01-01T00:05:30Z"],
  [
    "a due time is not its own next one",
    every(60, "2026-01-01T00:00:30Z"),
    "2026-01-01T00:05:30Z",
    "2026-01-01T00:06:30Z",
  ],
  ["an interval before its anchor", every(60, "2026-01-01T00:00:30Z"), "2025-01-01T00:00:00Z", "2026-01-01T00:00:30Z"],
  ["a moment", { kind: "at", at: at("2026-01-01T00:00:00Z") }, "2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z"],
] satisfies ReadonlyArray<readonly [string, Timing, string, string]>)("%s", (_, timing, after, due) => {
  expect(nextDue(timing, at(after))).toBe(at(due))
})

test("a moment is due once", () => {
  expect(nextDue({ kind: "at", at: 5 }, 5)).toBeUndefined()
})

describe("daylight saving in Europe/Berlin", () => {
  const zone = "Europe/Berlin"

  test.each([
    // 02:00 to 03:00 do not exist on 29 March 2026.
    [
      "a time in the gap is due when the gap ends",
      "30 2 * * *",
      "2026-03-28T12:00:00Z",
      ["03-29 03:00 01:00Z", "03-30 02:30 00:30Z"],
    ],
    [
      "so is a list of them, once",
      "0,30 2 * * *",
      "2026-03-28T12:00:00Z",
      ["03-29 03:00 01:00Z", "03-30 02:00 00:00Z"],
    ],
    [
      "*/15 goes on in real time",
      "*/15 * * * *",
      "2026-03-29T00:30:00Z",
      ["03-29 01:45 00:45Z", "03-29 03:00 01:00Z", "03-29 03:15 01:15Z"],
    ],
    [
      "*/15 within the gap is not due that day",
      "*/15 2 * * *",
      "2026-03-28T12:00:00Z",
      ["03-30 02:00 00:00Z", "03-30 02:15 00:15Z"],
    ],
    // 02:00 to 03:00 come twice on 25 October 2026.
    [
      "a time that comes twice is due once, the first time",
      "30 2 * * *",
      "2026-10-24T12:00:00Z",
      ["10-25 02:30 00:30Z", "10-26 02:30 01:30Z"],
    ],
    [
      "so is each of a list",
      "0,30 2 * * *",
      "2026-10-24T12:00:00Z",
      ["10-25 02:00 00:00Z", "10-25 02:30 00:30Z", "10-26 02:00 01:00Z"],
    ],
    [
      "*/15 goes on in real time through both hours",
      "*/15 * * * *",
      "2026-10-25T00:30:00Z",
      [
        "10-25 02:45 00:45Z",
        "10-25 02:00 01:00Z",
        "10-25 02:15 01:15Z",
        "10-25 02:30 01:30Z",
        "10-25 02:45 01:45Z",
        "10-25 03:00 02:00Z",
      ],
    ],
  ])("%s", (_, text, after, dues) => {
    expect(following(cron(text, zone), after, dues.length, zone)).toEqual(dues)
  })
})

describe("daylight saving in America/Nuuk, where the gap ends at midnight", () => {
  const zone = "America/Nuuk"

  // 23:00 to 24:00 do not exist on 27 March 2027.
  test.each([
    [
      "a time in the gap is due when the gap ends",
      "30 23 * * *",
      "2027-03-26T12:00:00Z",
      ["03-26 23:30 01:30Z", "03-28 00:00 01:00Z", "03-28 23:30 00:30Z"],
    ],
    ["also on that day alone", "30 23 27 3 *", "2027-03-26T12:00:00Z", ["03-28 00:00 01:00Z", "03-27 23:30 00:30Z"]],
    [
      "so is a list of them, once",
      "0,30 23 27 * *",
      "2027-03-26T12:00:00Z",
      ["03-28 00:00 01:00Z", "04-27 23:00 00:00Z"],
    ],
    ["a time before the gap is due as ever", "59 22 27 3 *", "2027-03-26T12:00:00Z", ["03-27 22:59 00:59Z"]],
    ["*/30 within the gap is not due that day", "*/30 23 * * *", "2027-03-27T12:00:00Z", ["03-28 23:00 00:00Z"]],
  ])("%s", (_, text, after, dues) => {
    expect(following(cron(text, zone), after, dues.length, zone)).toEqual(dues)
  })
})

describe("daylight saving in America/New_York", () => {
  const zone = "America/New_York"

  test.each([
    [
      "a time in the gap is due when the gap ends",
      "30 2 * * *",
      "2026-03-07T12:00:00Z",
      ["03-08 03:00 07:00Z", "03-09 02:30 06:30Z"],
    ],
    ["*/15 goes on in real time", "*/15 * * * *", "2026-03-08T06:30:00Z", ["03-08 01:45 06:45Z", "03-08 03:00 07:00Z"]],
    [
      "a time that comes twice is due once, the first time",
      "30 1 * * *",
      "2026-10-31T12:00:00Z",
      ["11-01 01:30 05:30Z", "11-02 01:30 06:30Z"],
    ],
    [
      "*/15 goes on in real time through both hours",
      "*/15 * * * *",
      "2026-11-01T05:30:00Z",
      [
        "11-01 01:45 05:45Z",
        "11-01 01:00 06:00Z",
        "11-01 01:15 06:15Z",
        "11-01 01:30 06:30Z",
        "11-01 01:45 06:45Z",
        "11-01 02:00 07:00Z",
      ],
    ],
  ])("%s", (_, text, after, dues) => {
    expect(following(cron(text, zone), after, dues.length, zone)).toEqual(dues)
  })
})

test.each([
  ["0 0 30 2 *", "is never due"],
  ["0 0 31 4 *", "is never due"],
  ["* * *", "must be five fields"],
  ["* * * * * * *", "must be five fields"],
  ["", "must be five fields"],
  ["2026-01-01T00:00:00", "must be five fields"],
  ["@dayly", "must be five fields"],
  ["60 * * * *", "minute: 60"],
  ["0 0 32 * *", "day: 32"],
  ["0 0 0-5 * *", "day: 0"],
  ["0 0 * 13 *", "month: 13"],
  ["@reboot", "must be five fields"],
  ["0 7 * * mon 2030", "is not a cron expression"],
])("%s is refused", (text, why) => {
  expect(problemOfCron(text, "UTC", at("2026-01-01T00:00:00Z"))).toContain(why)
})

test.each([
  ["Europe/Berlin", true],
  ["UTC", true],
  ["Mars/Olympus", false],
  ["", false],
])("%s is a time zone: %s", (name, is) => {
  expect(isTimeZone(name)).toBe(is)
})

describe("due times in a row", () => {
  const first = at("2026-01-01T00:00:00Z")
  const minutes = (count: number) => first + count * 60_000

  test.each([
    ["every minute", every(60, "2026-01-01T00:00:00Z")],
    ["* * * * *", cron("* * * * *")],
  ])("%s: the latest ones, and how many came before", (_, timing) => {
    expect(dueTimesBetween(timing, first, minutes(4.5), 3)).toEqual({
      latest: [minutes(2), minutes(3), minutes(4)],
      before: 2,
    })
    expect(dueTimesBetween(timing, first, minutes(2), 10)).toEqual({
      latest: [first, minutes(1), minutes(2)],
      before: 0,
    })
    expect(dueTimesBetween(timing, first, first - 1, 10)).toEqual({ latest: [], before: 0 })
  })

  test.each([1_000, 1_001, 1_100, 1_102, 2_000])(
    "of %s due times no more are counted, and none before the first",
    (total) => {
      for (const max of [2, 101, 1_001]) {
        const { latest, before } = dueTimesBetween(cron("* * * * *"), first, minutes(total - 1), max)
        expect(latest.length).toBe(Math.min(total, max))
        expect(latest[0]).toBe(minutes(total - latest.length))
        expect(before).toBe(Math.min(total - latest.length, 1_000))
      }
    },
  )

  // Counting these due times one by one would take half an hour.
  test("a cron text that was due each second for a year: the latest ones at once", { timeout: 60_000 }, () => {
    const until = at("2027-01-01T00:00:00.5Z")
    const { latest, before } = dueTimesBetween(cron("* * * * * *"), first, until, 3)
    expect(latest.map((due) => until - due)).toEqual([2_500, 1_500, 500])
    expect(before).toBe(1_000)
  })

  test("an interval over a century is counted exactly, at once", () => {
    const { latest, before } = dueTimesBetween(every(1, "2026-01-01T00:00:00Z"), first, first + 3_155_760_000_000, 2)
    expect([latest.length, before]).toEqual([2, 3_155_759_999])
  })
})

describe("jitter", () => {
  const delays = Array.from({ length: 1_000 }, (_, at) => jitterOf(`name-${at}`, 60_000))

  test("is the same for the same seed, and within its bound", () => {
    expect(jitterOf("weekly-20260105T070000Z", 60_000)).toBe(jitterOf("weekly-20260105T070000Z", 60_000))
    expect(Math.min(...delays)).toBeGreaterThanOrEqual(0)
    expect(Math.max(...delays)).toBeLessThan(60_000)
  })

  test("spreads seeds that are alike over the whole of it", () => {
    const parts = Array.from(
      { length: 10 },
      (_, part) => delays.filter((each) => Math.floor(each / 6_000) === part).length,
    )
    expect(Math.min(...parts)).toBeGreaterThan(60)
  })
})
