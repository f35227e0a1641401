/** The counts of a worker as readers get them: each attempt once, in bounded size, by the clock of the transport. */
import { expect, test } from "vitest"
import { mergedSlot, type SlotCell, type SlotEntry } from "../../../../runtime/statistics/entries.ts"
import {
  type EndedAttempt,
  MAX_CELLS,
  MINUTE_MS,
  OTHER,
  SLOT_MS,
  type SlotReport,
  Tally,
} from "../../../../runtime/statistics/tally.ts"

const BEGIN = 2_900_000 * SLOT_MS
const ended = (fields: Partial<EndedAttempt> = {}): EndedAttempt => ({
  task: "orders.total",
  queue: "default",
  end: "succeeded",
  ...fields,
})

const kept = ({ cells }: SlotReport, worker = "a"): SlotEntry => ({
  worker,
  id: worker,
  host: "here",
  pid: 1,
  startedAt: "",
  queues: [],
  concurrency: 1,
  since: 0,
  at: 0,
  cells,
})
const merged = (...told: ReadonlyArray<SlotReport>): ReadonlyArray<SlotCell> =>
  mergedSlot(told.map((each) => kept(each)))
const sum = (cells: ReadonlyArray<SlotCell>): number =>
  cells.flatMap(({ bins }) => bins).reduce((all, bin) => all + bin.ended + bin.retried, 0)

test("attempts are told by minute, task and queue", () => {
  const tally = new Tally()
  tally.count(BEGIN, ended({ waited: 100, ran: 20 }))
  tally.count(BEGIN + 59_000, ended({ end: "failed", ran: 20 }))
  tally.count(BEGIN + MINUTE_MS, ended({ end: "retried" }))
  tally.count(BEGIN + 3 * MINUTE_MS, ended({ queue: "fast", end: "cancelled" }))
  const [total, fast] = merged(tally.report(BEGIN + 9 * MINUTE_MS).current)
  expect(total).toMatchObject({ task: "orders.total", queue: "default" })
  expect(total?.bins.map(({ ends }) => ends.join("")).slice(0, 3)).toEqual(["11000", "00100", "00000"])
  expect(total?.bins[0]?.started).toBe(2)
  expect(fast?.bins[3]?.cancelled).toBe(1)
})

test("writing again and again adds nothing", () => {
  const tally = new Tally()
  for (let n = 0; n < 50; n++) {
    tally.count(BEGIN + n * 10_000, ended({ submittedAt: BEGIN - 5 * MINUTE_MS }))
    tally.report(BEGIN + n * 10_000)
  }
  const [cell] = merged(tally.report(BEGIN + 500_000).current)
  expect(sum(merged(tally.report(BEGIN + 500_000).current))).toBe(50)
  expect([...(cell?.submitted ?? [])]).toEqual([[-5, 50]])
})

test("a slot that is over is told once more, until it is written", () => {
  const tally = new Tally()
  tally.count(BEGIN + SLOT_MS - 1, ended())
  tally.count(BEGIN + SLOT_MS, ended())
  const { current, over } = tally.report(BEGIN + SLOT_MS)
  expect([sum(merged(...over)), sum(merged(current))]).toEqual([1, 1])
  expect(over.map(({ slot }) => slot)).toEqual([BEGIN / SLOT_MS])
  tally.written(over)
  expect(tally.report(BEGIN + SLOT_MS).over).toEqual([])
})

test("a clock that goes back by a little counts into the minute that was reached", () => {
  const tally = new Tally()
  tally.count(BEGIN + SLOT_MS, ended())
  tally.count(BEGIN, ended())
  const { current, over } = tally.report(BEGIN)
  expect([current.slot, over.length, sum(merged(current))]).toEqual([BEGIN / SLOT_MS + 1, 0, 2])
})

test("a clock that was hours ahead hides nothing of what comes until then", () => {
  const tally = new Tally()
  tally.count(BEGIN, ended())
  const ahead = BEGIN + 12 * SLOT_MS
  for (const now of [ahead, ahead + SLOT_MS]) tally.count(now, ended())
  tally.count(BEGIN + MINUTE_MS, ended())
  const { current, over } = tally.report(BEGIN + MINUTE_MS)
  // The slot was begun anew, and the counts of the future slots are not written any more.
  expect([current.slot, sum(merged(current))]).toEqual([BEGIN / SLOT_MS, 1])
  expect(over.map(({ slot }) => slot)).toEqual([BEGIN / SLOT_MS])
})

test("an outage for hours, ever more tasks and submissions of any time take bounded room", () => {
  const tally = new Tally()
  for (let n = 0; n < 5_000; n++) {
    const submittedAt = n % 2 === 0 ? BEGIN - n * 7 * MINUTE_MS : Number.MAX_SAFE_INTEGER
    tally.count(BEGIN, ended({ task: `task ${n}\n|,: `, waited: n ** 3, ran: n ** 2.5, submittedAt }))
  }
  const { current } = tally.report(BEGIN)
  expect(current.cells.length).toBeLessThanOrEqual(MAX_CELLS + 1)
  expect(sum(merged(current))).toBe(5_000)
  expect(current.cells.find(([task]) => task === OTHER)).toBeDefined()
  expect(JSON.stringify(current).length).toBeLessThan(400_000)
  for (let slot = 0; slot < 100; slot++) tally.count(BEGIN + slot * SLOT_MS, ended())
  expect(tally.report(BEGIN + 100 * SLOT_MS).over.length).toBeLessThanOrEqual(6)
})

test("entries of a hostile writer are added up as far as they are counts", () => {
  const cells: SlotEntry["cells"] = [
    ["a", "q", "x:y 1:2:3 -9e99:4\n0 1,-5,x|1:2|\n99 1||\nnonsense\n3 1e400|"],
    ["a", "q", ""],
    ["__proto__", "constructor", "\n1 7,0,0,0,0||"],
  ]
  const found = mergedSlot([{ ...kept({ slot: 0, cells }), version: "1" }])
  expect(found.map(({ task }) => task)).toEqual(["a", "__proto__"])
  expect(sum(found)).toBe(8)
})
