/** The queue in which tasks wait for limits, when deferred tasks come back, and how rates are kept. */

import { Result } from "effect"
import { describe, expect, test } from "vitest"
import { parseRate, type Rate, reserve } from "../../../../../runtime/options/limit.ts"
import { AdmissionQueue, BacklogEstimate, MAX_WAIT_MS } from "../../../../../runtime/worker/limits/admission-queue.ts"
import { RateTokens } from "../../../../../runtime/worker/limits/share.ts"

describe("a queue", () => {
  const queueFor = (capacity: number) =>
    new AdmissionQueue<number>({ capacity: () => capacity, precedes: (a, b) => a < b })

  test("keeps each queue in order", () => {
    const queue = queueFor(9)
    for (const item of [3, 1, 2]) expect(queue.add("a", item)).toBeUndefined()
    expect(queue.tasksOf("a")).toEqual([1, 2, 3])
    expect(queue.first("b")).toBeUndefined()
  })

  test("that is full defers the last task of the longest queue, so that no tenant fills it", () => {
    const queue = queueFor(4)
    for (const item of [1, 2, 3, 4]) queue.add("many", item)
    expect(queue.add("one", 9)).toBe(4)
    expect(queue.add("one", 8)).toBe(3)
    expect(queue.add("many", 5)).toBe(5)
    expect(queue.tasksOf("many")).toEqual([1, 2])
    expect(queue.tasksOf("one")).toEqual([8, 9])
    expect(queue.size).toBe(4)
  })

  test("takes one that comes before others in their place", () => {
    const queue = queueFor(2)
    for (const item of [5, 6]) queue.add("a", item)
    expect(queue.isFullFor("a", 4)).toBe(false)
    expect(queue.add("a", 4)).toBe(6)
  })

  test("says beforehand what would have to go at once", () => {
    const queue = queueFor(2)
    for (const item of [5, 6]) queue.add("a", item)
    expect(queue.isFullFor("a", 7)).toBe(true)
    expect(queue.add("a", 7)).toBe(7)
    expect(queue.isFullFor("b", 7)).toBe(false)
  })

  test("knows nothing of what has left", () => {
    const queue = queueFor(2)
    queue.add("a", 1)
    expect(queue.remove("a", 1)).toBe(true)
    expect(queue.remove("a", 1)).toBe(false)
    expect([queue.size, ...queue.keys]).toEqual([0])
  })
})

describe("a backlog", () => {
  test("brings deferred tasks back before there is space for them, not after", () => {
    const backlog = new BacklogEstimate(0)
    backlog.setWaiting(true, 0)
    for (let at = 1; at <= 50; at++) backlog.started(at * 6)
    expect(backlog.spacing(300)).toBeCloseTo(6, 0)
    // The last of a thousand tasks is due in six seconds.
    const delays = Array.from({ length: 1_000 }, () => backlog.postponedMs(300, 3, 0.5, 0))
    expect(delays.at(-1)).toBeGreaterThan(2_500)
    expect(delays.at(-1)).toBeLessThan(4_000)
    expect([...delays].sort((a, b) => a - b)).toEqual(delays)
  })

  test("whose speed is unknown is tried soon, and more seldom if it does not move", () => {
    const backlog = new BacklogEstimate(0)
    backlog.setWaiting(true, 0)
    const first = Array.from({ length: 3_000 }, () => backlog.postponedMs(400, 1, 0.5, 0))
    expect(first[0]).toBe(100)
    expect(first.at(-1)).toBeLessThan(6_500)
    expect(backlog.postponedMs(60_000, 2, 0.5, 0)).toBe(300)
  })

  test("of ten thousand costs two hundred looks a second, and ends after some minutes however many wait", () => {
    const backlog = new BacklogEstimate(0)
    backlog.setWaiting(true, 0)
    for (let at = 1; at <= 50; at++) backlog.started(at * 60_000)
    const delays = Array.from({ length: 10_000 }, () => backlog.postponedMs(3_000_000, 9, 0.5, 0))
    expect(delays.at(-1)).toBeGreaterThan(30_000)
    expect(delays.at(-1)).toBeLessThan(60_000)
    let longest = 0
    for (let count = 0; count < 100_000; count++) longest = Math.max(longest, backlog.postponedMs(3_000_000, 9, 1, 0))
    expect(longest).toBeLessThanOrEqual(MAX_WAIT_MS)
  })
})

describe("a backlog where pulls take long", () => {
  /** Delay of the last of this many tasks, each of which has come again. */
  const last = (count: number, pullMs: number, now = 60_000): number => {
    const backlog = new BacklogEstimate(0)
    backlog.setWaiting(true, 0)
    return Array.from({ length: count }, () => backlog.postponedMs(now, 2, 0.5, pullMs)).at(-1) ?? Number.NaN
  }

  test("leaves half of the time to what is behind: a pull and a settlement take twice as long as a pull", () => {
    expect(last(100, 15)).toBe(100 * 15 * 4)
    expect(last(100, 0.1)).toBe(last(100, 0))
  })

  test("comes again after a tenth of a second per task at the latest", () => {
    expect(last(100, 5_000)).toBe(10_000)
  })

  test("brings a few back as soon as where pulls are fast", () => {
    expect(last(1, 15)).toBe(last(1, 0))
  })

  test("that moves is back before there is space", () => {
    const backlog = new BacklogEstimate(0)
    backlog.setWaiting(true, 0)
    for (let at = 1; at <= 50; at++) backlog.started(at * 6)
    const delays = Array.from({ length: 1_000 }, () => backlog.postponedMs(300, 3, 0.5, 50))
    expect(delays.at(-1)).toBeLessThan(4_000)
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
  const simulate = (rate: Rate, workers: number, ms: number): ReadonlyArray<number> => {
    let seed = 7
    const random = () => {
      seed = (seed * 16_807) % 2_147_483_647
      return seed / 2_147_483_647
    }
    const starts: Array<number> = []
    let tat: number | undefined
    const all = Array.from({ length: workers }, () => ({
      pace: new RateTokens(rate),
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
        const taken = reserve(rate, tat, now, { wanted, aheadMs: 250 })
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
    const rate = Result.getOrThrow(parseRate(text))
    const minutes = 3
    const starts = simulate(rate, workers, minutes * 60_000)
    const perMinute = 60_000 / rate.intervalMs
    expect(starts.length).toBeGreaterThan(0.97 * minutes * perMinute)
    let max = 0
    for (let first = 0, last = 0; last < starts.length; last++) {
      while ((starts[last] ?? 0) - (starts[first] ?? 0) >= 60_000) first++
      max = Math.max(max, last - first + 1)
    }
    expect(max).toBeLessThanOrEqual(perMinute + 1)
  })
})
