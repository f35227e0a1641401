import { Result } from "effect"
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import {
  burstOf,
  parseRate,
  type Rate,
  RateTokens,
  reserve,
  spacingOf,
  tenantOf,
} from "../../../../runtime/options/limit.ts"

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

describe("moments of a rate", () => {
  test("are used in order, and lapse when they are too late", () => {
    const pace = new RateTokens({ intervalMs: 1_000 })
    pace.add(5_000, 2)
    expect(pace.next(0)).toBe(5_000)
    pace.use()
    expect(pace.next(0)).toBe(6_000)
    expect(pace.left(6_800)).toBe(1)
    expect(pace.left(6_901)).toBe(0)
  })

  /** Workers that always have waiting tasks, each late now and then, over minutes of simulated time. */
  const simulate = (simulated: Rate, workers: number, ms: number): ReadonlyArray<number> => {
    let seed = 7
    const random = () => {
      seed = (seed * 16_807) % 2_147_483_647
      return seed / 2_147_483_647
    }
    const starts: Array<number> = []
    let tat: number | undefined
    const all = Array.from({ length: workers }, () => ({
      pace: new RateTokens(simulated),
      nextRequestAt: 0,
      answerAt: -1,
      freeAt: 0,
    }))
    for (let now = 0; now < ms; now++)
      for (const worker of all) {
        if (now < worker.freeAt) continue
        // A busy machine: up to a fifth of a second, ten times a minute.
        if (random() < 1 / 6_000) worker.freeAt = now + 200 * random()
        for (let at = worker.pace.next(now); at !== undefined && at <= now; at = worker.pace.next(now)) {
          worker.pace.use()
          starts.push(now)
        }
        const missing = 64 - worker.pace.left(now)
        if (worker.answerAt < 0 && now >= worker.nextRequestAt && missing > 0) worker.answerAt = now + 20 * random()
        if (worker.answerAt < 0 || now < worker.answerAt) continue
        worker.answerAt = -1
        const wanted = Math.max(missing, worker.pace.grantSize)
        const taken = reserve(simulated, tat, now, { wanted, aheadMs: 250 })
        ;({ tat } = taken)
        worker.pace.add(taken.first, taken.count)
        worker.nextRequestAt = taken.count < wanted ? now + Math.max(taken.waitMs, 125) : now
      }
    return starts
  }

  test.each([
    ["1/s", 1],
    ["1/s", 3],
    ["10/s", 1],
    ["10/s", 3],
    ["100/s", 2],
    ["1000/s", 2],
  ])("%s with %d workers: within three percent, and no minute has more than it may", (text, workers) => {
    const each = rate(text)
    const minutes = 3
    const starts = simulate(each, workers, minutes * 60_000)
    const perMinute = 60_000 / each.intervalMs
    expect(starts.length).toBeGreaterThan(0.97 * minutes * perMinute)
    let max = 0
    for (let first = 0, last = 0; last < starts.length; last++) {
      while ((starts[last] ?? 0) - (starts[first] ?? 0) >= 60_000) first++
      max = Math.max(max, last - first + 1)
    }
    expect(max).toBeLessThanOrEqual(perMinute + 1)
  })
})

test("the tenant is what the key takes from the input", () => {
  expect(tenantOf(undefined, { who: "acme" })).toEqual(Result.succeed(""))
  expect(tenantOf("who", { who: "acme" })).toEqual(Result.succeed("acme"))
  expect(tenantOf(() => "acme", undefined)).toEqual(Result.succeed("acme"))
  expect(tenantOf("who", { who: 5 })).toEqual(
    Result.fail("limit.key: the field who must be text of 1 to 255 bytes, not number"),
  )
  expect(tenantOf("who", null)).toEqual(
    Result.fail("limit.key: the field who must be text of 1 to 255 bytes, not undefined"),
  )
  expect(tenantOf(() => null, {})).toEqual(Result.fail("limit.key must return text of 1 to 255 bytes, not null"))
})
