/** The tasks that wait for limits, and when postponed tasks come back. */
import { describe, expect, test } from "vitest"
import { Backlog, MAX_WAIT_MS, WaitingTasks } from "../../../../../runtime/worker/limits/waiting.ts"

describe("a queue", () => {
  const queueFor = (capacity: number) =>
    new WaitingTasks<number>({ capacity: () => capacity, precedes: (a, b) => a < b })

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

/** Postpones a task. Returns for how many milliseconds. */
const postpone = (backlog: Backlog, now: number, deliveries: number, random: number, pullMs: number): number => {
  const at = backlog.returnsAt(now, deliveries, random, pullMs)
  backlog.postponed(at, now)
  return at - now
}

describe("a backlog", () => {
  test("brings deferred tasks back before there is space for them, not after", () => {
    const backlog = new Backlog(0)
    backlog.setWaiting(true, 0)
    for (let at = 1; at <= 50; at++) backlog.started(at * 6)
    expect(backlog.spacing(300)).toBeCloseTo(6, 0)
    // The last of a thousand tasks is due in six seconds.
    const delays = Array.from({ length: 1_000 }, () => postpone(backlog, 300, 3, 0.5, 0))
    expect(delays.at(-1)).toBeGreaterThan(2_500)
    expect(delays.at(-1)).toBeLessThan(4_000)
    expect([...delays].sort((a, b) => a - b)).toEqual(delays)
  })

  test("whose speed is unknown is tried soon, and more seldom if it does not move", () => {
    const backlog = new Backlog(0)
    backlog.setWaiting(true, 0)
    const first = Array.from({ length: 3_000 }, () => postpone(backlog, 400, 1, 0.5, 0))
    expect(first[0]).toBe(100)
    expect(first.at(-1)).toBeLessThan(6_500)
    expect(postpone(backlog, 60_000, 2, 0.5, 0)).toBe(300)
  })

  test("of ten thousand costs two hundred looks a second, and ends after some minutes however many wait", () => {
    const backlog = new Backlog(0)
    backlog.setWaiting(true, 0)
    for (let at = 1; at <= 50; at++) backlog.started(at * 60_000)
    const delays = Array.from({ length: 10_000 }, () => postpone(backlog, 3_000_000, 9, 0.5, 0))
    expect(delays.at(-1)).toBeGreaterThan(30_000)
    expect(delays.at(-1)).toBeLessThan(60_000)
    let longest = 0
    for (let count = 0; count < 100_000; count++) longest = Math.max(longest, postpone(backlog, 3_000_000, 9, 1, 0))
    expect(longest).toBeLessThanOrEqual(MAX_WAIT_MS)
  })
})

describe("a backlog where pulls take long", () => {
  /** Delay of the last of this many tasks, each of which has come again. */
  const last = (count: number, pullMs: number, now = 60_000): number => {
    const backlog = new Backlog(0)
    backlog.setWaiting(true, 0)
    return Array.from({ length: count }, () => postpone(backlog, now, 2, 0.5, pullMs)).at(-1) ?? Number.NaN
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
    const backlog = new Backlog(0)
    backlog.setWaiting(true, 0)
    for (let at = 1; at <= 50; at++) backlog.started(at * 6)
    const delays = Array.from({ length: 1_000 }, () => postpone(backlog, 300, 3, 0.5, 50))
    expect(delays.at(-1)).toBeLessThan(4_000)
  })
})
