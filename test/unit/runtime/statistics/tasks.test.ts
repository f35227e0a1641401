/** Tasks in numbers, and the range before. */
import { expect, test } from "vitest"
import { mergedSlot } from "../../../../runtime/statistics/kept.ts"
import { SLOT_MS } from "../../../../runtime/statistics/tally.ts"
import { tasksOf } from "../../../../runtime/statistics/tasks.ts"

const HOUR_MS = 3_600_000
const NOW = 2_900_000 * SLOT_MS

/** Slots of the last 26 hours, in each of which a task ran 60 times. */
const slots = Array.from({ length: 156 }, (_, at) => ({
  slot: 2_900_000 - 156 + at,
  workers: [],
  cells: mergedSlot([
    {
      worker: "w1",
      id: "1",
      host: "here",
      pid: 1,
      startedAt: "",
      queues: [],
      concurrency: 1,
      since: 0,
      at: 0,
      cells: [["a.run", "default", "\n3 60,0,0,0,0||"]],
    },
  ]),
}))

const of = (range: number) => tasksOf(slots, { range, limit: 10 }, NOW).tasks

test("the range before is compared where all of it is kept", () => {
  expect(of(12 * HOUR_MS)).toMatchObject([{ task: "a.run", perMinute: 6, before: { perMinute: 6 } }])
  const [day] = of(24 * HOUR_MS)
  expect(day).toMatchObject({ perMinute: 6 })
  expect(day).not.toHaveProperty("before")
})
