/** Tasks in numbers, and the range before. */
import { expect, test } from "vitest"
import { mergedSlot } from "../../../../runtime/statistics/entries.ts"
import { SLOT_MS } from "../../../../runtime/statistics/tally.ts"
import { recentOf, tasksOf } from "../../../../runtime/statistics/tasks.ts"

const HOUR_MS = 3_600_000
const NOW = 2_900_000 * SLOT_MS

const worker = {
  ...{ worker: "w1", id: "1", host: "here", pid: 1, startedAt: "" },
  ...{ queues: [], concurrency: 1, since: 0, at: 0 },
}

/** Slots of the last 26 hours, in each of which a task ran 60 times. */
const slots = Array.from({ length: 156 }, (_, at) => ({
  slot: 2_900_000 - 156 + at,
  workers: [],
  cells: mergedSlot([{ ...worker, cells: [["a.run", "default", "\n3 60,0,0,0,0||"]] }]),
}))

const of = (range: number) => tasksOf(slots, { range, limit: 10 }, NOW).tasks

test("the range before is compared where all of it is kept", () => {
  expect(of(12 * HOUR_MS)).toMatchObject([{ task: "a.run", perMinute: 6, before: { perMinute: 6 } }])
  const [day] = of(24 * HOUR_MS)
  expect(day).toMatchObject({ perMinute: 6 })
  expect(day).not.toHaveProperty("before")
})

test("the last attempts are as many minutes as hold thirty, with what failed in them", () => {
  const cell = (counts: string) => mergedSlot([{ ...worker, cells: [["a.run", "default", counts]] }])
  const told = [
    { slot: 2_899_998, workers: [], cells: cell("\n9 0,90,0,0,0||") },
    { slot: 2_899_999, workers: [], cells: cell("\n0 20,5,0,0,0||\n9 10,2,0,0,0||") },
  ]
  const cause = (fingerprint: string, minutesAgo: number) => ({
    ...{ fingerprint, name: "Error", reason: "error", template: "", queues: {}, attempts: {}, minutes: [], ids: [] },
    ...{ tasks: ["a.run"], then: { failed: 1, retrying: 0, dead: 0 }, first: 0, last: NOW - minutesAgo * 60_000 },
  })
  const failures = [{ slot: 2_899_999, worker: "w1", causes: [cause("met", 10), cause("over", 11)] }]
  const recent = recentOf(told, failures, ["a.run", "b.run"], NOW - 1)
  expect([...recent]).toEqual([["a.run", { attempts: 37, failed: 7, causes: new Set(["met"]) }]])
})
