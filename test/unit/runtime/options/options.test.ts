import { actor, type Limit } from "callboard"
import { describe, expect, test } from "vitest"
import { CallboardError } from "../../../../runtime/errors.ts"
import { checkTimeLimit, milliseconds, timeLimitOf, timeToLive } from "../../../../runtime/options/duration.ts"
import { wholeNumber } from "../../../../runtime/options/fields.ts"
import { resultOf } from "../../../../runtime/options/refusal.ts"

const refused = (message: string | RegExp) => expect.objectContaining({ message: expect.stringMatching(message) })

describe("a duration", () => {
  test.each([
    [1.5, 1_500],
    ["10s", 10_000],
    ["5 minutes", 300_000],
    [0, 0],
  ])("%j", (given, ms) => {
    expect(milliseconds("grace", given)).toBe(ms)
  })

  test.each([-1, "soon", Number.NaN, "5 parsecs"])("%j is refused, naming the field", (given) => {
    expect(() => milliseconds("grace", given)).toThrow(refused(/^grace: /))
    expect(() => milliseconds("grace", given)).toThrow(CallboardError)
  })

  test("of a time to live may be for ever", () => {
    expect(timeToLive("resultTtl", -5)).toBe(-1)
    expect(timeToLive("resultTtl", "-1")).toBe(-1)
    expect(timeToLive("resultTtl", "2 days")).toBe(172_800_000)
    expect(() => timeToLive("resultTtl", "-2 days")).toThrow(refused(/^resultTtl: /))
  })
})

describe("a time limit", () => {
  test.each([
    [30, { hardMs: 30_000 }],
    ["1 minute", { hardMs: 60_000 }],
    [{ soft: 1 }, { softMs: 1_000 }],
    [
      { soft: 1, hard: "2 s" },
      { hardMs: 2_000, softMs: 1_000 },
    ],
    [{}, {}],
  ])("%j", (given, limit) => {
    expect(timeLimitOf(given)).toEqual(limit)
  })

  test.each([
    [0, "timeLimit.hard: must be more than 0"],
    [{ hard: "soon" }, "timeLimit.hard: "],
    [{ soft: 0 }, "timeLimit.soft: must be more than 0"],
    [{ soft: 2, hard: 1 }, "timeLimit.soft: must be shorter than timeLimit.hard"],
    [{ soft: 1, hard: 1 }, "timeLimit.soft: must be shorter than timeLimit.hard"],
  ])("%j is refused", (given, message) => {
    expect(() => timeLimitOf(given)).toThrow(message)
  })

  test("that is no number is refused as well", () => {
    expect(() => checkTimeLimit({ hardMs: Number.NaN }, { hard: "hardMs", soft: "softMs" })).toThrow(
      "hardMs: must be more than 0",
    )
  })

  test("is refused in the caller's own way", () => {
    const refuse = (field: string, message: string): never => {
      throw new RangeError(`method x.run: ${field}: ${message}`)
    }
    expect(() => timeLimitOf(0, "timeLimit.", refuse)).toThrow(
      new RangeError("method x.run: timeLimit.hard: must be more than 0"),
    )
  })
})

test("a refusal becomes a value; another error goes on", () => {
  expect(resultOf(() => 7)).toMatchObject({ success: 7 })
  expect(resultOf(() => milliseconds("delay", "soon"))).toMatchObject({ failure: { details: { field: "delay" } } })
  const fault = new TypeError("a fault")
  expect(() =>
    resultOf(() => {
      throw fault
    }),
  ).toThrow(fault)
})

describe("a whole number", () => {
  const range = { min: 1, max: 3 }
  test.each([1, 3])("%j is within its range", (given) => {
    expect(wholeNumber("count", given, range)).toBe(given)
  })

  test.each([0, 4, 1.5, Number.NaN, "2", null])("%j is refused, naming the field", (given) => {
    expect(() => wholeNumber("count", given, range)).toThrow("count: must be a whole number from 1 to 3")
  })

  test("without an end is so much or more", () => {
    expect(() => wholeNumber("count", -1, { min: 0 })).toThrow("count: must be a whole number, 0 or more")
  })
})

describe("the limit of a method", () => {
  const limitOf = (limit: Limit) => actor("x", { methods: { run: { limit, run: () => 1 } } }).methods.get("run")?.limit

  test("has its rate in milliseconds, and what it does not say is absent", () => {
    expect(limitOf({ rate: "10/s", concurrency: undefined })).toEqual({ rate: { intervalMs: 100 } })
    expect(limitOf({ concurrency: 2, key: "customer" })).toEqual({ concurrency: 2, key: "customer" })
  })
})
