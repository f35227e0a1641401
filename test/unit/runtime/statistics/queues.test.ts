/** Rates and trends of queues. */
import { expect, test } from "vitest"
import { Bin } from "../../../../runtime/statistics/entries.ts"
import { type QueueFacts, queueDetails } from "../../../../runtime/statistics/queues.ts"

const NOW = Date.parse("2026-01-31T12:00:00Z")
const ended = (count: number): Bin => {
  const bin = new Bin()
  bin.ends[0] = count
  return bin
}
const facts = (fields: Partial<QueueFacts> = {}): QueueFacts => ({
  paused: new Map(),
  limits: new Map(),
  workers: [{ queues: ["default", "fast"], concurrency: 4 }],
  counted: new Map([["default", ended(500)]]),
  minutes: 5,
  samples: [{ minute: 0, at: NOW - 300_000, queues: [["default", 1_000, 0, 0]] }],
  now: NOW,
  ...fields,
})
const of = (ready: number, fields: Partial<QueueFacts> = {}) =>
  queueDetails(
    { name: "default", paused: fields.paused !== undefined, depth: ready, scheduled: 0, running: 0, inFlight: 0 },
    facts(fields),
  )

test("a queue drains, grows, stands still, or is empty", () => {
  expect(of(500)).toMatchObject({
    perMinute: { in: 0, out: 100 },
    trend: "draining",
    emptyAt: "2026-01-31T12:05:00.000Z",
  })
  expect(of(2_000)).toMatchObject({ perMinute: { in: 300, out: 100 }, trend: "growing", handlers: 4, workers: 1 })
  expect(of(1_010)).toMatchObject({ perMinute: { in: 102, out: 100 }, trend: "steady" })
  expect(of(0)).toMatchObject({ trend: "empty" })
  expect(of(0)).not.toHaveProperty("emptyAt")
})

test("nothing is told of rates that no worker knows", () => {
  expect(of(5, { samples: [] })).not.toHaveProperty("perMinute")
  expect(of(5, { minutes: 0 })).not.toHaveProperty("trend")
  // A sample with a hundred queues has no room for others, so the depth of another queue is not known.
  const queues = Array.from({ length: 100 }, (_, n): [string, number, number, number] => [`q${n}`, 99, 0, 0])
  expect(of(50, { samples: [{ minute: 0, at: NOW - 300_000, queues }] })).not.toHaveProperty("trend")
})

test("a pause says since when, and by which token", () => {
  const paused = new Map([["default", { at: "2026-01-31T11:00:00Z", by: "ann" }]])
  expect(of(5, { paused })).toMatchObject({ paused: true, pausedSince: "2026-01-31T11:00:00Z", pausedBy: "ann" })
})

test("a limit says since when, and by which token", () => {
  const limits = new Map([["default", { at: "2026-01-31T11:00:00Z", by: "ann" }]])
  expect(of(5, { limits })).toMatchObject({ limitedSince: "2026-01-31T11:00:00Z", limitedBy: "ann" })
})
