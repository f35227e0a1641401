/** The entry of a schedule: which due times are posted, and which are missed. */
import { describe, expect, test } from "vitest"
import {
  collectDue,
  dueAfterPause,
  jobIdOf,
  LATE_MS,
  newEntry,
  nextStepOf,
  pausedEntry,
  posted,
  posting,
  REPAIR_MS,
  type Rules,
  refused,
  type ScheduleEntry,
  skipped,
  unplanned,
  withWake,
} from "../../../../runtime/schedules/entry.ts"
import { jitterOf } from "../../../../runtime/schedules/timing.ts"

const START = Date.parse("2026-01-01T00:00:00Z")
const minutes = (count: number): number => START + count * 60_000

const EACH_MINUTE: Rules = {
  timing: { kind: "every", everyMs: 60_000, anchor: START },
  catchUp: "last",
  overlap: "allow",
  most: 100,
  jitterMs: 0,
}

const entryOf = (rules: Partial<Rules> = {}): ScheduleEntry =>
  newEntry("tick", { task: "scene", every: 60 }, { ...EACH_MINUTE, ...rules }, START)

const pending = (id: string, at: number) => ({ id, at, queue: "default", frame: "" })

test("an interval is due at once, then after each interval", () => {
  const entry = entryOf()
  expect([entry.due, entry.wake]).toEqual([START, START])
  const after = collectDue("tick", entry, START)
  expect(after).toMatchObject({ line: [START], due: minutes(1) })
})

test("what is not due changes nothing", () => {
  const entry = collectDue("tick", entryOf(), START)
  expect(collectDue("tick", entry, minutes(0.9))).toBe(entry)
})

describe("due times that passed while no scheduler lived", () => {
  const late = (from: number, to: number) => ({
    from: minutes(from),
    to: minutes(to),
    count: to - from + 1,
    why: "late",
  })

  test.each([
    ["last", {}, minutes(3.5), [3], [late(0, 2)]],
    ["all", { catchUp: "all" }, minutes(3.5), [0, 1, 2, 3], []],
    ["all, with a bound", { catchUp: "all", most: 2 }, minutes(3.5), [2, 3], [late(0, 1)]],
    ["skip, where the last one is not late yet", { catchUp: "skip" }, minutes(3) + LATE_MS - 1, [3], [late(0, 2)]],
    [
      "skip, where it is",
      { catchUp: "skip", timing: { kind: "at", at: START } },
      START + LATE_MS + 1,
      [],
      [late(0, 0)],
    ],
    ["last, of a moment", { timing: { kind: "at", at: START } }, minutes(60), [0], []],
  ] satisfies ReadonlyArray<readonly [string, Partial<Rules>, number, ReadonlyArray<number>, ReadonlyArray<object>]>)(
    "%s",
    (_, rules, now, line, missed) => {
      const entry = { ...entryOf(rules), due: START }
      const after = collectDue("tick", entry, now)
      expect(after.line).toEqual(line.map(minutes))
      expect(after.missed.latest).toEqual(missed)
      expect(after.missed.count).toBe(missed.length === 0 ? 0 : late(0, 0).count * (missed[0]?.count ?? 0))
    },
  )

  test("the next one is in the future, and a moment has none", () => {
    expect(collectDue("tick", entryOf(), minutes(3.5)).due).toBe(minutes(4))
    expect(
      collectDue("tick", { ...entryOf({ timing: { kind: "at", at: START } }), due: START }, minutes(1)).due,
    ).toBeNull()
  })

  test("twenty stretches of missed ones are remembered, and all are counted", () => {
    let entry = entryOf()
    for (let round = 1; round <= 30; round++) entry = { ...collectDue("tick", entry, minutes(2 * round)), line: [] }
    expect(entry.missed.latest).toHaveLength(20)
    expect(entry.missed.count).toBe(31)
  })
})

test("jitter delays each due time by its own part", () => {
  const rules = { jitterMs: 30_000 }
  const entry = entryOf(rules)
  const delay = jitterOf(jobIdOf("tick", START), 30_000)
  expect(entry.wake).toBe(START + delay)
  expect(collectDue("tick", entry, START + delay - 1)).toBe(entry)
  expect(collectDue("tick", entry, START + delay).line).toEqual([START])
})

test.each(["last", "all", "skip"] as const)(
  "a jitter longer than the interval: each due time is posted before the next one, and none is missed (%s)",
  (catchUp) => {
    let entry = entryOf({ jitterMs: 300_000, catchUp, most: 1 })
    const dues: Array<number> = []
    for (let now = START; now <= minutes(60); now += 1_000) {
      entry = collectDue("tick", entry, now)
      for (const due of entry.line) expect([due <= now, now <= due + 60_000]).toEqual([true, true])
      dues.push(...entry.line)
      entry = { ...entry, line: [] }
    }
    expect(dues).toEqual(Array.from({ length: 60 }, (_, at) => minutes(at)))
    expect(entry.missed.count).toBe(0)
  },
)

describe("overlap", () => {
  const queue = collectDue("tick", entryOf({ overlap: "queue", catchUp: "all" }), minutes(1))

  test.each([
    ["allow", false, "post"],
    ["skip", false, "skip"],
    ["skip", true, "post"],
    ["queue", false, "wait"],
    ["queue", true, "post"],
  ] as const)("%s, the job before has ended: %s → %s", (overlap, hasEnded, turn) => {
    expect(nextStepOf({ ...queue, rules: { ...queue.rules, overlap } }, hasEnded)).toBe(turn)
    expect(nextStepOf({ ...queue, line: [], rules: { ...queue.rules, overlap } }, hasEnded)).toBe("none")
  })

  test("a due time that is skipped is missed", () => {
    const after = skipped(queue)
    expect(after.line).toEqual([minutes(1)])
    expect(after.missed).toEqual({ count: 1, latest: [{ from: START, to: START, count: 1, why: "overlap" }] })
  })

  test("the line is bounded: the oldest ones are missed", () => {
    let entry = entryOf({ overlap: "queue", most: 2 })
    for (let round = 0; round < 4; round++) entry = collectDue("tick", entry, minutes(round))
    expect(entry.line).toEqual([minutes(2), minutes(3)])
    expect(entry.missed.count).toBe(2)
    expect(entry.missed.latest[0]).toMatchObject({ from: minutes(1), why: "overlap" })
  })
})

describe("the posting", () => {
  const id = jobIdOf("tick", START)
  const held = withWake("tick", posting(collectDue("tick", entryOf(), START), pending(id, START), START))

  test("is in the entry until it was published, and wakes others after a while", () => {
    expect(id).toBe("tick-20260101T000000Z")
    expect(held).toMatchObject({ line: [], pending: { id }, wake: START + REPAIR_MS, due: minutes(1) })
    expect(held.runs).toEqual([{ id, due: START, at: START }])
    expect(withWake("tick", posted(held))).not.toHaveProperty("pending")
    expect(withWake("tick", posted(held)).wake).toBe(minutes(1))
  })

  test("that the transport refuses was no run", () => {
    const after = refused(held, "too large")
    expect(after.runs).toEqual([])
    expect(after).not.toHaveProperty("pending")
    expect(after.missed.latest).toEqual([{ from: START, to: START, count: 1, why: "refused", detail: "too large" }])
  })

  test("that cannot be made leaves the line", () => {
    const after = unplanned(collectDue("tick", entryOf(), START), "no such queue")
    expect(after).toMatchObject({ line: [], missed: { count: 1, latest: [{ why: "refused" }] } })
  })

  test("asked for by hand leaves the line as it is", () => {
    const line = collectDue("tick", entryOf(), START)
    expect(posting(line, pending("tick-x", minutes(0.5)), minutes(0.5)).line).toEqual([START])
  })

  test("twenty runs are remembered, newest first", () => {
    let entry = entryOf()
    for (let round = 0; round < 30; round++)
      entry = posting(collectDue("tick", entry, minutes(round)), pending(`${round}`, 0), minutes(round))
    expect(entry.runs.map((run) => run.id)).toEqual(Array.from({ length: 20 }, (_, at) => `${29 - at}`))
  })
})

describe("a pause", () => {
  test("ends what waits, and nothing accrues", () => {
    const entry = pausedEntry("tick", collectDue("tick", entryOf(), START), START)
    expect(entry).toMatchObject({ line: [], paused: true, missed: { count: 1, latest: [{ why: "paused" }] } })
    expect(collectDue("tick", entry, minutes(10))).toBe(entry)
    expect(withWake("tick", entry).wake).toBeNull()
  })

  test("afterwards the next due time counts; a moment that has passed is late", () => {
    expect(dueAfterPause(pausedEntry("tick", entryOf(), START - 1), minutes(10.5))).toBe(minutes(11))
    const moment = { ...entryOf({ timing: { kind: "at", at: minutes(1) } }), due: minutes(1) }
    expect(dueAfterPause(pausedEntry("tick", moment, minutes(2)), minutes(10))).toBe(minutes(1))
  })
})

test("ids have the name and the due time, with milliseconds where it has some", () => {
  expect(jobIdOf("a.b", Date.parse("2026-01-01T00:00:00.25Z"))).toBe("a.b-20260101T000000250Z")
})
