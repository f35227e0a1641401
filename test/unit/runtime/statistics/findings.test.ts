/** The rules that find what is wrong with a board: each by itself, and none of them on a healthy board. */
import { describe, expect, test } from "vitest"
import { Bin } from "../../../../runtime/statistics/entries.ts"
import { type Facts, findingsOf, verdictOf } from "../../../../runtime/statistics/findings.ts"
import type { QueueDetails } from "../../../../runtime/statistics/schema.ts"

const NOW = Date.parse("2026-01-31T12:00:00Z")
const MINUTE_MS = 60_000
const ago = (minutes: number): string => new Date(NOW - minutes * MINUTE_MS).toISOString()

const queue = (fields: Partial<QueueDetails> = {}): QueueDetails => ({
  name: "default",
  paused: false,
  depth: 3,
  scheduled: 0,
  running: 1,
  inFlight: 1,
  oldest: ago(0.1),
  oldestAge: 6,
  handlers: 4,
  workers: 1,
  ...fields,
})

const tried = (succeeded: number, failed: number, retried = 0): Bin => {
  const bin = new Bin()
  bin.ends.splice(0, 3, succeeded, failed, retried)
  return bin
}

const well: Facts = {
  now: NOW,
  queues: [queue()],
  samples: [],
  workers: [{ name: "w1", queues: ["default"], startedAt: ago(60) }],
  lost: [],
  tasks: new Map([["orders.total", tried(1_000, 3)]]),
  minutes: 5,
  perMinute: new Map(),
  dead: [{ endedAt: NOW - 90 * MINUTE_MS, reason: "unknown-actor" }],
  moreDead: false,
  schedules: [{ name: "nightly", due: NOW + MINUTE_MS }],
  newest: NOW - 8_000,
}

const codes = (facts: Partial<Facts>): ReadonlyArray<string> =>
  findingsOf({ ...well, ...facts }).map(({ code, severity }) => `${code} ${severity}`)

test("a board that is well has no findings, also without anything on it", () => {
  expect(codes({})).toEqual([])
  expect(verdictOf(well, findingsOf(well))).toBe("Everything is fine.")
  expect(codes({ queues: [], workers: [], tasks: new Map(), dead: [], schedules: [], newest: 0 })).toEqual([])
})

describe("found is", () => {
  test.each<[string, Partial<Facts>]>([
    ["no-worker bad", { queues: [queue({ workers: 0, handlers: 0, oldest: ago(1), oldestAge: 60 })] }],
    ["worker-lost warn", { lost: [{ worker: "w2", host: "here", at: NOW - MINUTE_MS }] }],
    ["worker-lost bad", { workers: [], lost: [{ worker: "w2", host: "here", at: NOW }], queues: [] }],
    [
      "worker-blocked warn",
      { workers: [{ name: "w1", queues: ["default"], startedAt: ago(60), blocked: { since: ago(0.2), job: "j" } }] },
    ],
    [
      "worker-blocked bad",
      { workers: [{ name: "w1", queues: ["default"], startedAt: ago(60), blocked: { since: ago(2) } }] },
    ],
    ["paused-long warn", { queues: [queue({ paused: true, pausedSince: ago(11), pausedBy: "ann" })] }],
    ["falling-behind warn", { queues: [queue({ oldest: ago(6), oldestAge: 360 })] }],
    ["falling-behind bad", { queues: [queue({ oldest: ago(40), oldestAge: 2_400, trend: "growing" })] }],
    [
      "falling-behind warn",
      {
        queues: [queue({ oldest: ago(99), oldestAge: 99 * 60 })],
        samples: [
          { minute: 0, at: NOW - 10 * MINUTE_MS, queues: [] },
          { minute: 1, at: NOW - 9 * MINUTE_MS, queues: [["default", 5, 0, 0]] },
          // A sample with a hundred queues has no room for others, so it says nothing about other queues.
          {
            minute: 8,
            at: NOW - 2 * MINUTE_MS,
            queues: Array.from({ length: 100 }, (_, n): [string, number, number, number] => [`q${n}`, 9, 0, 0]),
          },
        ],
      },
    ],
    ["dead-new warn", { dead: [{ endedAt: NOW - MINUTE_MS, reason: "unknown-actor" }] }],
    ["overdue warn", { schedules: [{ name: "nightly", due: NOW - 2 * MINUTE_MS }] }],
    ["failing warn", { tasks: new Map([["a.run", tried(15, 5)]]) }],
    ["failing bad", { tasks: new Map([["a.run", tried(1, 2, 4)]]) }],
  ])("%s", (code, facts) => {
    const found = findingsOf({ ...well, ...facts })
    expect(codes(facts)).toEqual([code])
    expect(Date.parse(found[0]?.since ?? "")).toBeLessThanOrEqual(NOW)
    expect(found[0]?.href).toMatch(/^\/(queues|workers|dead|schedules|errors)/)
  })
})

describe("nothing is found", () => {
  test.each<[string, Partial<Facts>]>([
    ["of a queue without a worker whose tasks have just come", { queues: [queue({ workers: 0, oldestAge: 2 })] }],
    ["of a queue that has just been paused", { queues: [queue({ paused: true, pausedSince: ago(2), workers: 0 })] }],
    ["of a queue that was paused by a clock ahead", { queues: [queue({ paused: true, pausedSince: ago(-60) })] }],
    ["of a paused queue by a time that is none", { queues: [queue({ paused: true, pausedSince: "soon" })] }],
    ["of a paused queue with nothing in it", { queues: [queue({ paused: true, pausedSince: ago(99), depth: 0 })] }],
    ["of a queue that drains", { queues: [queue({ oldestAge: 9_999, trend: "draining" })] }],
    [
      "of a queue in which nothing waited two minutes ago: its oldest job was delayed, or is tried again",
      {
        queues: [queue({ oldest: ago(99), oldestAge: 99 * 60, trend: "growing" })],
        samples: [{ minute: 8, at: NOW - 2 * MINUTE_MS, queues: [["other", 5, 0, 0]] }],
      },
    ],
    ["of four failures", { tasks: new Map([["a.run", tried(0, 4)]]) }],
    ["of letters that are dated an hour ahead", { dead: [{ endedAt: NOW + 60 * MINUTE_MS, reason: "x" }] }],
    [
      "while what workers write does not arrive",
      { newest: NOW - 2 * MINUTE_MS, queues: [queue({ workers: 0, oldestAge: 99 })] },
    ],
  ])("%s", (_, facts) => expect(codes(facts)).toEqual([]))
})

test("a task fails since the first minute after the last one in which it was well", () => {
  const since = (...bins: ReadonlyArray<Bin>) =>
    findingsOf({ ...well, tasks: new Map([["a.run", tried(1, 9)]]), perMinute: new Map([["a.run", bins]]) })[0]?.since
  const [fine, bad, none] = [tried(20, 1), tried(1, 4), tried(0, 0)]
  expect(since(fine, none, bad, none, bad)).toBe(ago(2))
  expect(since(bad, fine, bad)).toBe(ago(0))
  // It has failed for as long as anybody has looked.
  expect(since(none, ...Array.from({ length: 30 }, () => bad))).toBe(ago(29))
  // In the present minute it is well again, while the last minutes are not.
  expect(since(bad, bad, fine)).toBe(ago(5))
})

test("a board of which nothing is known is not said to be well", () => {
  const stale = { ...well, newest: NOW - 2 * MINUTE_MS }
  expect(verdictOf(stale, findingsOf(stale))).toMatch(/^Unknown: /)
})

test("one task and one minute are not called many", () => {
  const details = (facts: Partial<Facts>) => findingsOf({ ...well, ...facts }).map(({ detail }) => detail)
  const alone = queue({ depth: 1, workers: 0, oldest: ago(2), oldestAge: 120 })
  expect(details({ queues: [alone] })[0]).toMatch(/^1 task waits, the oldest for 2 minutes\./)
  const paused = queue({ depth: 1, paused: true, pausedSince: ago(120) })
  expect(details({ queues: [paused] })[0]).toMatch(/; 1 task waits\.$/)
  expect(details({ minutes: 1, tasks: new Map([["mailer.send", tried(0, 60)]]) })).toEqual([
    "60 of 60 attempts in the last minute, 100 %.",
  ])
})

test("a worker that has just started need not have written anything", () => {
  const workers = [{ name: "w1", queues: [], startedAt: ago(0.2) }]
  expect(codes({ workers, newest: 0, queues: [queue({ workers: 0, oldestAge: 99 })] })).toEqual(["no-worker bad"])
})

test("the worst comes first, and a hundred queues are no flood", () => {
  const queues = Array.from({ length: 100 }, (_, n) =>
    queue({ name: `<q>${n}\u202e`, workers: 0, oldestAge: 99, depth: n + 1 }),
  )
  const found = findingsOf({ ...well, queues, lost: [{ worker: "w2", host: "here", at: NOW }] })
  expect(found.length).toBeLessThanOrEqual(20)
  expect(found[0]?.evidence).toMatchObject({ waiting: 100 })
  expect(found.at(-1)?.code).toBe("worker-lost")
  expect(verdictOf(well, found)).toMatch(/^No worker consumes <q>99.*, and 5 more problems\.$/)
  expect(verdictOf(well, found.slice(0, 1))).toMatch(/Everything else is fine\.$/)
})
