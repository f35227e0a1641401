/** What the outcome of a parent means for the jobs that wait for it. Pure. */

import { Result } from "effect"
import { describe, expect, test } from "vitest"
import { plan } from "../../../../runtime/client/submitting/plan.ts"
import type { ParsedSubmission } from "../../../../runtime/jobs/submission/submission.ts"
import { advance, deferred, type ParentOutcome, parentOutcomeOf } from "../../../../runtime/protocol/dependencies.ts"
import { parseTask } from "../../../../runtime/protocol/headers.ts"
import { type JobRecord, tombstoneOf } from "../../../../runtime/protocol/record.ts"
import { STATES } from "../../../../runtime/protocol/state.ts"

const NOW = Date.UTC(2026, 0, 1)

/** The record of a job that waits for its parents. */
const waiting = (after: NonNullable<ParsedSubmission["after"]>, fields: Partial<ParsedSubmission> = {}): JobRecord => {
  const context = { now: NOW, id: "child", origin: "test", defaults: { queue: "q" } }
  const posting = Result.getOrThrow(plan({ task: "a.b", after, ...fields }, context))
  return deferred(posting, Result.getOrThrow(parseTask(posting.message)), NOW)
}

const outcomes = (given: Readonly<Record<string, ParentOutcome>>) => new Map(Object.entries(given))

describe("how a job stands, for those that wait for it", () => {
  const EXPECTED = {
    deferred: ["open", "open"],
    scheduled: ["open", "open"],
    queued: ["open", "open"],
    started: ["open", "open"],
    succeeded: ["succeeded", "succeeded"],
    failed: ["failed", "gone"],
    cancelled: ["cancelled", "gone"],
    expired: ["failed", "gone"],
  } as const

  test.each(STATES)("%s, and the same as a tombstone", (state) => {
    expect([parentOutcomeOf({ state }), parentOutcomeOf({ state, tombstone: true })]).toEqual(EXPECTED[state])
  })

  test("nothing known of it: gone", () => {
    expect(parentOutcomeOf(undefined)).toBe("gone")
  })
})

describe("the time to live of a job that waits", () => {
  const released = (record: JobRecord, at: number) => {
    const next = advance(record, outcomes({ a: "succeeded" }), at)
    if (next?.kind !== "released") throw new Error(`not released: ${next?.kind}`)
    return next
  }

  test("begins when it waits for no job any more", () => {
    const record = waiting("a", { ttl: 60 })
    expect(record).not.toHaveProperty("expiresAt")
    const { record: next, posting } = released(record, NOW + 3_600_000)
    expect([next.expiresAt, posting.expires]).toEqual([NOW + 3_660_000, NOW + 3_660_000])
    // Maintenance posts what is in the record, where the task was lost.
    expect(next.message).toEqual(posting.message)
  })

  test("begins when it is due, where that is later", () => {
    const { record } = released(waiting("a", { ttl: 60, delay: 600 }), NOW + 1_000)
    expect(record.expiresAt).toBe(NOW + 660_000)
  })

  test("is not that of `expires`, which stays", () => {
    const record = waiting("a", { expires: 60 })
    expect([record.expiresAt, released(record, NOW + 1_000).posting.expires]).toEqual([NOW + 60_000, NOW + 60_000])
  })
})

describe("the record of a job that waits", () => {
  test("holds its task and all that it waits for, each once", () => {
    const record = waiting(["a", "b", "a"])
    expect(record).toMatchObject({ state: "deferred", fence: "", after: { ids: ["a", "b"], waiting: ["a", "b"] } })
    expect(record.message?.headers).toMatchObject({ id: "child", callboard: { after: { ids: ["a", "b"] } } })
    expect(record.timeline).toEqual([{ n: 1, run: 1, at: NOW, state: "deferred" }])
  })

  test("says deferred also where it is due later, and keeps that time", () => {
    expect(waiting("a", { delay: 60 })).toMatchObject({ state: "deferred", dueAt: NOW + 60_000 })
  })
})

describe("what becomes of it", () => {
  const kindOf = (outcome: ParentOutcome, allowFailure: boolean) =>
    advance(waiting({ ids: ["a"], allowFailure }), outcomes({ a: outcome }), NOW)?.kind

  test.each([
    ["open", undefined, undefined],
    ["succeeded", "released", "released"],
    ["failed", undefined, "released"],
    ["cancelled", undefined, undefined],
    ["gone", "never", "released"],
    ["released", "released", "released"],
  ] as const)("the only one that it waits for: %s", (outcome, strict, lenient) => {
    expect([kindOf(outcome, false), kindOf(outcome, true)]).toEqual([strict, lenient])
  })

  test("of several, some: it waits for the others, in their order", () => {
    const next = advance(waiting(["a", "b", "c"]), outcomes({ b: "succeeded", x: "succeeded" }), NOW)
    expect(next).toMatchObject({ kind: "fewer", record: { state: "deferred", after: { waiting: ["a", "c"] } } })
    expect(next?.kind === "fewer" && next.record.timeline).toHaveLength(1)
  })

  test("of several, one that is gone: it never starts, whatever the others do", () => {
    const next = advance(waiting(["a", "b"]), outcomes({ a: "succeeded", b: "gone" }), NOW)
    expect(next).toEqual({ kind: "never", parent: "b" })
  })

  test("of several, all but one that failed: a failure will do, or it will not", () => {
    const known = outcomes({ a: "succeeded", b: "failed", c: "gone" })
    expect(advance(waiting({ ids: ["a", "b", "c"], allowFailure: true }), known, NOW)?.kind).toBe("released")
    expect(advance(waiting(["a", "b"]), known, NOW)).toMatchObject({ record: { after: { waiting: ["b"] } } })
  })

  test("released, it has a task with the publish key of its first posting, and says when that was", () => {
    const record = waiting({ ids: ["a"], allowFailure: true }, { front: true, meta: { n: 1 } })
    const next = advance(record, outcomes({ a: "failed" }), NOW + 5_000)
    if (next?.kind !== "released") throw new Error("it is released")
    expect(next.record).toMatchObject({
      state: "queued",
      submittedAt: NOW,
      after: { ids: ["a"], allowFailure: true },
      meta: { n: 1 },
      timeline: [
        { n: 1, state: "deferred" },
        { n: 2, at: NOW + 5_000, state: "queued", reason: "released" },
      ],
    })
    expect(next.record.after?.waiting).toBeUndefined()
    expect(next.posting).toMatchObject({ id: "child", run: 1, retries: 0, queue: "q", level: 10 })
    expect(next.posting.message).toEqual(record.message)
  })

  test("released before its time, it is scheduled; after it, queued", () => {
    const record = waiting("a", { delay: 60 })
    const at = (now: number) => {
      const next = advance(record, outcomes({ a: "succeeded" }), now)
      return next?.kind === "released" ? [next.record.state, next.record.timeline.at(-1)?.due, next.posting.due] : next
    }
    expect(at(NOW + 59_999)).toEqual(["scheduled", NOW + 60_000, NOW + 60_000])
    expect(at(NOW + 60_000)).toEqual(["queued", undefined, NOW + 60_000])
  })

  test("nothing, for a job that does not wait any more, or is only a tombstone", () => {
    const record = waiting("a")
    const known = outcomes({ a: "succeeded" })
    const released = advance(record, known, NOW)
    if (released?.kind !== "released") throw new Error("it is released")
    expect(advance(released.record, known, NOW)).toBeUndefined()
    for (const state of STATES) {
      if (state !== "deferred") expect(advance({ ...record, state }, known, NOW)).toBeUndefined()
    }
    expect(advance(tombstoneOf({ ...record, state: "cancelled" }), known, NOW)).toBeUndefined()
  })

  test("a task that a newer version wrote, and this one cannot read, is told apart", () => {
    const record = waiting("a")
    const { message } = record
    if (message === undefined) throw new Error("it holds its task")
    const headers = { ...message.headers, callboard: { after: { ids: [] } } }
    const next = advance({ ...record, message: { ...message, headers } }, outcomes({ a: "succeeded" }), NOW)
    expect(next).toMatchObject({ kind: "invalid", why: { message: expect.stringContaining("after.ids") } })
  })
})
