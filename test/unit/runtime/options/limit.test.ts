import { Result } from "effect"
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { burstOf, parseRate, type Rate, reserve, spacingOf } from "../../../../runtime/options/limit.ts"

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

describe("reserving", () => {
  const rates = fc.oneof(
    fc.integer({ min: 1, max: 5_000 }).map((perSecond) => rate(perSecond)),
    fc.integer({ min: 1, max: 600 }).map((perMinute) => rate(`${perMinute}/m`)),
  )
  const steps = fc.array(
    fc.record({
      after: fc.integer({ min: 0, max: 2_000 }),
      wanted: fc.integer({ min: 0, max: 300 }),
      aheadMs: fc.constantFrom(0, 250),
    }),
    { maxLength: 60 },
  )

  test("gives each moment once, evenly spaced, none before the burst and none that is too far ahead", () => {
    fc.assert(
      fc.property(rates, steps, (limit, asked) => {
        const spacing = spacingOf(limit)
        let now = 1_000_000
        let tat: number | undefined
        for (const { after, wanted, aheadMs } of asked) {
          now += after
          const answer = reserve(limit, tat, now, { wanted, aheadMs })
          expect(answer.count).toBeLessThanOrEqual(wanted)
          if (answer.count > 0) {
            const last = answer.first + (answer.count - 1) * spacing
            expect(answer.first).toBeGreaterThan(now - burstOf(limit) * spacing - 0.001)
            expect(last).toBeLessThanOrEqual(now + aheadMs + 0.001)
            if (tat !== undefined && tat <= now + aheadMs) expect(answer.first).toBeGreaterThanOrEqual(tat - 0.001)
          }
          tat = answer.tat
        }
      }),
    )
  })

  test("says when the next comes: then it does, and not before", () => {
    fc.assert(
      fc.property(rates, fc.integer({ min: 1, max: 1_000 }), (limit, wanted) => {
        const ask = (tat: number | undefined, now: number, some: number) =>
          reserve(limit, tat, now, { wanted: some, aheadMs: 0 })
        const first = ask(undefined, 0, wanted + burstOf(limit))
        expect(first.count).toBe(burstOf(limit))
        expect(ask(first.tat, first.waitMs, 1).count).toBe(1)
        expect(ask(first.tat, first.waitMs - 0.1 * limit.intervalMs, 1).count).toBe(0)
      }),
    )
  })

  test("is one at a time where the rate is low, and does not save up", () => {
    const slow = rate("10/m")
    expect(burstOf(slow)).toBe(1)
    const now = { wanted: 5, aheadMs: 0 }
    expect(reserve(slow, undefined, 0, now)).toEqual({ first: 0, count: 1, tat: 6_000, waitMs: 6_000 })
    expect(reserve(slow, 6_000, 3_600_000, now).count).toBe(1)
  })

  test("heals a clock that was set back, and a rate that was lower", () => {
    const answer = reserve(rate("1/s"), 10 * 3_600_000, 0, { wanted: 1, aheadMs: 0 })
    expect(answer).toMatchObject({ count: 0, waitMs: 1_000 })
  })
})
