/** Failures by cause, as workers keep them and as they are read. */
import { expect, test } from "vitest"
import { type FailureSlot, knownWith } from "../../../../runtime/statistics/entries.ts"
import { causesOf, detailsOf } from "../../../../runtime/statistics/errors.ts"
import { type FailedAttempt, FailureTally } from "../../../../runtime/statistics/failures.ts"
import { MINUTE_MS, OTHER, SLOT_MS } from "../../../../runtime/statistics/tally.ts"

const BEGIN = 2_900_000 * SLOT_MS
const HOUR_MS = 3_600_000

const failed = (id: string, fields: Partial<FailedAttempt> = {}): FailedAttempt => ({
  id,
  fingerprint: "0000aaaa",
  error: { name: "TypeError", message: "order 7 is not there", reason: "handler" },
  message: "order 7 is not there",
  task: "orders.total",
  queue: "default",
  attempt: 1,
  then: "failed",
  ...fields,
})

const slotsOf = (tally: FailureTally, now: number, worker = "a", version?: string): ReadonlyArray<FailureSlot> =>
  tally.report(now).slots.map((told) => ({ ...told, worker, ...(version === undefined ? {} : { version }) }))

test("a cause counts attempts, and has its newest jobs first", () => {
  const tally = new FailureTally()
  for (let n = 0; n < 250; n++) tally.count(BEGIN + n * 1_000, failed(`job-${n}`))
  tally.count(BEGIN + 5 * MINUTE_MS, failed("job-200", { then: "retrying", attempt: 2, queue: "fast" }))
  const now = BEGIN + 6 * MINUTE_MS
  const query = { range: HOUR_MS, limit: 10 }
  const { errors } = causesOf(slotsOf(tally, now), [], query, now)
  expect(errors).toMatchObject([
    {
      fingerprint: "0000aaaa",
      template: "order <n> is not there",
      count: 251,
      jobs: { failed: 250, retrying: 1, dead: 0 },
      status: "new",
      sample: ["job-200", "job-249", "job-248"],
    },
  ])
  expect(errors[0]?.spark.reduce((sum, count) => sum + count)).toBe(251)
  const details = detailsOf(slotsOf(tally, now), [], "0000aaaa", { from: now - HOUR_MS, now })
  expect(details?.ids.length).toBe(100)
  expect(details?.by.attempt).toEqual([
    { key: "1", count: 250 },
    { key: "2", count: 1 },
  ])
})

test("workers and versions are told apart, and nothing is counted twice", () => {
  const now = BEGIN + MINUTE_MS
  const slots = ["1", "2"].flatMap((version) => {
    const tally = new FailureTally()
    tally.count(BEGIN, failed(`of ${version}`))
    tally.written(tally.report(BEGIN))
    tally.count(BEGIN, failed(`more of ${version}`))
    return slotsOf(tally, now, `worker-${version}`, version)
  })
  const details = detailsOf(slots, [], "0000aaaa", { from: now - HOUR_MS, now })
  expect(details?.count).toBe(4)
  expect(details?.by.version).toEqual([
    { key: "1", count: 2 },
    { key: "2", count: 2 },
  ])
  expect(detailsOf(slots, [], "ffffffff", { from: now - HOUR_MS, now })).toBeUndefined()
})

test("nothing is told again that is written, until something is added", () => {
  const tally = new FailureTally()
  expect(tally.report(BEGIN).slots).toEqual([])
  tally.count(BEGIN, failed("1"))
  const pending = tally.report(BEGIN)
  tally.count(BEGIN, failed("2"))
  tally.written(pending)
  expect(tally.report(BEGIN).slots.map(({ causes }) => causes[0]?.minutes[0])).toEqual([2])
  tally.written(tally.report(BEGIN))
  expect(tally.report(BEGIN + SLOT_MS).slots).toEqual([])
  tally.count(BEGIN + SLOT_MS, failed("3"))
  expect(tally.report(BEGIN + 2 * SLOT_MS).slots.length).toBe(1)
})

test("ever more causes, tasks, queues and jobs take bounded room", () => {
  const tally = new FailureTally()
  for (let n = 0; n < 20_000; n++) {
    const message = `${String.fromCharCode(97 + (n % 26)).repeat(4_000)} \u0000\u202e`
    const fingerprint = (n % 7_000).toString(16).padStart(8, "0")
    tally.count(
      BEGIN,
      failed(`job-${n}-${"x".repeat(200)}`, { fingerprint, message, task: `t${n}`, queue: `__proto__${n}` }),
    )
  }
  for (let n = 0; n < 5_000; n++) tally.count(BEGIN, failed(`${n}`, { queue: `q${n}`, attempt: n }))
  const [told] = tally.report(BEGIN).slots
  expect(told?.causes.length).toBeLessThanOrEqual(100)
  expect(JSON.stringify(told).length).toBeLessThan(800_000)
  const details = detailsOf(slotsOf(tally, BEGIN), [], "0000aaaa", { from: BEGIN - HOUR_MS, now: BEGIN + 1 })
  expect(details?.by.queue.length).toBeLessThanOrEqual(6)
  expect(details?.by.queue.at(-1)?.key).toBe(OTHER)
})

test("a cause is new, goes on, falls quiet, and comes back", () => {
  const met = (at: number) => [{ fingerprint: "0000aaaa", first: at, last: at }]
  const statusAt = (now: number, known: Parameters<typeof causesOf>[1], last: number) => {
    const tally = new FailureTally()
    tally.count(last, failed("1"))
    return causesOf(slotsOf(tally, now), known, { range: HOUR_MS, limit: 1 }, now).errors[0]?.status
  }
  const first = knownWith([], met(BEGIN))
  expect(statusAt(BEGIN + MINUTE_MS, first, BEGIN)).toBe("new")
  const on = knownWith(first, met(BEGIN + 50 * MINUTE_MS))
  expect(statusAt(BEGIN + 90 * MINUTE_MS, knownWith(on, met(BEGIN + 89 * MINUTE_MS)), BEGIN + 89 * MINUTE_MS)).toBe(
    "ongoing",
  )
  expect(statusAt(BEGIN + 70 * MINUTE_MS, on, BEGIN + 50 * MINUTE_MS)).toBe("quiet")
  const back = knownWith(on, met(BEGIN + 500 * MINUTE_MS))
  expect(statusAt(BEGIN + 501 * MINUTE_MS, back, BEGIN + 500 * MINUTE_MS)).toBe("back")
})

test("the causes that were met last stay known", () => {
  const met = Array.from({ length: 600 }, (_, n) => ({ fingerprint: String(n), first: n, last: n }))
  const known = knownWith([], met)
  expect([known.length, known[0]?.fingerprint, known.at(-1)?.fingerprint]).toEqual([500, "599", "100"])
})

test("pages go on after the cause that ended the one before", () => {
  const tally = new FailureTally()
  for (let n = 0; n < 5; n++) tally.count(BEGIN + n, failed("1", { fingerprint: `0000000${n}` }))
  const page = (after?: string) =>
    causesOf(slotsOf(tally, BEGIN + 10), [], { range: HOUR_MS, limit: 2, sort: "last", after }, BEGIN + 10)
  const first = page()
  expect(first.errors.map(({ fingerprint }) => fingerprint)).toEqual(["00000004", "00000003"])
  expect(page(first.next).errors.map(({ fingerprint }) => fingerprint)).toEqual(["00000002", "00000001"])
  expect(page("00000001")).not.toHaveProperty("next")
  expect(() => page("gone")).toThrow(/cursor/)
})

test("a clock that was hours ahead hides no failure that comes until then", () => {
  const tally = new FailureTally()
  tally.count(BEGIN + 12 * SLOT_MS, failed("ahead"))
  tally.count(BEGIN + MINUTE_MS, failed("now"))
  const slots = slotsOf(tally, BEGIN + MINUTE_MS)
  expect(slots).toMatchObject([{ slot: BEGIN / SLOT_MS, causes: [{ ids: ["now"] }] }])
  const known = knownWith(
    [{ fingerprint: "0000aaaa", first: BEGIN + 12 * SLOT_MS, last: BEGIN + 12 * SLOT_MS }],
    [{ fingerprint: "0000aaaa", first: BEGIN, last: BEGIN + MINUTE_MS }],
  )
  expect(known).toEqual([{ fingerprint: "0000aaaa", first: BEGIN, last: BEGIN + MINUTE_MS }])
})
