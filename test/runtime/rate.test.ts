import { Result } from "effect"
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { burstOf, parseRate, type Rate, take } from "../../runtime/rate.ts"

const rate = (input: unknown): Rate => Result.getOrThrow(parseRate(input))

describe("a rate", () => {
  test.each([
    ["100/s", 10],
    ["10/m", 6_000],
    ["1/h", 3_600_000],
    ["0.5/s", 2_000],
    [" 10 / M ", 6_000],
    ["4", 250],
    [5, 200],
    [0.1, 10_000],
    ["1000000/s", 0.001],
  ])("%s is one each %d ms", (input, intervalMs) => {
    expect(rate(input).intervalMs).toBeCloseTo(intervalMs, 9)
  })

  test.each([
    "",
    "abc",
    "10/x",
    "10/",
    "/m",
    "0",
    "0/m",
    "-1/m",
    "1e3/s",
    "Infinity",
    0,
    -1,
    Number.NaN,
    Infinity,
    1e-12,
    1e12,
    "9999999/s",
    "0.0001/h",
    null,
    undefined,
    {},
    true,
  ])("%j is none", (input) => {
    expect(Result.isFailure(parseRate(input))).toBe(true)
  })
})

describe("taking", () => {
  const rates = fc.oneof(
    fc.integer({ min: 1, max: 5_000 }).map((perSecond) => rate(perSecond)),
    fc.integer({ min: 1, max: 600 }).map((perMinute) => rate(`${perMinute}/m`)),
  )
  const steps = fc.array(
    fc.record({ after: fc.integer({ min: 0, max: 2_000 }), wanted: fc.integer({ min: 0, max: 300 }) }),
    {
      maxLength: 60,
    },
  )

  test("gives, in any time, no more than the burst and what the rate is worth", () => {
    fc.assert(
      fc.property(rates, steps, (limit, asked) => {
        const taken: Array<{ readonly at: number; readonly count: number }> = []
        let now = 1_000_000
        let tat: number | undefined
        for (const { after, wanted } of asked) {
          now += after
          const answer = take(limit, tat, now, wanted)
          expect(answer.granted).toBeLessThanOrEqual(wanted)
          tat = answer.tat
          taken.push({ at: now, count: answer.granted })
        }
        for (let from = 0; from < taken.length; from++) {
          let sum = 0
          for (let to = from; to < taken.length; to++) {
            sum += taken[to]?.count ?? 0
            const ms = (taken[to]?.at ?? 0) - (taken[from]?.at ?? 0)
            expect(sum).toBeLessThanOrEqual(burstOf(limit) + ms / limit.intervalMs + 0.001)
          }
        }
      }),
    )
  })

  test("says when the next comes: then it does, and not before", () => {
    fc.assert(
      fc.property(rates, fc.integer({ min: 1, max: 1_000 }), (limit, wanted) => {
        const first = take(limit, undefined, 0, wanted + burstOf(limit))
        expect(first.granted).toBe(burstOf(limit))
        expect(take(limit, first.tat, first.waitMs, 1).granted).toBe(1)
        expect(take(limit, first.tat, first.waitMs - 0.1 * limit.intervalMs, 1).granted).toBe(0)
      }),
    )
  })

  test("is one at a time where the rate is low, and does not save up", () => {
    const slow = rate("10/m")
    expect(burstOf(slow)).toBe(1)
    expect(take(slow, undefined, 0, 5)).toEqual({ granted: 1, tat: 6_000, waitMs: 6_000 })
    expect(take(slow, 6_000, 3_600_000, 5).granted).toBe(1)
  })

  test("heals a clock that was set back, and a rate that was lower", () => {
    const answer = take(rate("1/s"), 10 * 3_600_000, 0, 1)
    expect(answer).toMatchObject({ granted: 0, waitMs: 1_000 })
  })
})
