import { describe, expect, test } from "vitest"
import { NO_ORDER, orderOf } from "../../../../../runtime/transport/job-store/attempt.ts"
import {
  isOfAnother,
  isOver,
  isPosted,
  isPreceded,
  judgeConflict,
  judgeStart,
  positionOf,
} from "../../../../../runtime/transport/job-store/judge.ts"
import { attempt, message, posting, record } from "./samples.ts"

const first = positionOf(posting())
const retry = posting(1, 1)
const by = (delivery: number, of = posting(), token?: string) => attempt(delivery, of, token).fence

describe("a posting is over", () => {
  test.each([
    ["runs", record(), false],
    ["waits again", record({ state: "queued" }), false],
    ["has ended", record({ state: "cancelled" }), true],
    ["has a later run", record({ run: 2, state: "queued" }), true],
    ["has an earlier run that ended", record({ run: 0, state: "succeeded" }), false],
    ["went on to its retry", record({ state: "scheduled", retries: 1, successor: "j/1/1" }), true],
    ["went on to this posting", record({ state: "scheduled", successor: "j/1/0" }), false],
    ["was moved to another queue", record({ state: "queued", successor: "j/1/0/1" }), true],
    ["is run by its retry", record({ fence: by(1, retry) }), true],
    ["was run by what came before", record({ fence: by(1, posting(1, 0)) }), false],
    ["was taken off its queue by another", record({ acked: true, fence: by(1) }), true],
    ["was taken off its queue by this attempt", record({ acked: true, fence: by(2) }), false],
    ["is a dead letter without a posting", record({ fence: `${NO_ORDER}.1.x` }), false],
  ])("when its job %s: %s", (_, stored, over) => expect(isOver(stored, first, by(2))).toBe(over))
})

describe("a follow-up is known", () => {
  const child = posting(1, 0, 0, "child")
  test.each([
    ["nothing about its job", child, undefined, false],
    ["a task of its job", child, { task: orderOf(child) }, true],
    ["a record of its job", child, { record: record({ id: "child" }) }, true],
    ["an earlier task of its own job", retry, { task: orderOf(posting()) }, false],
    ["its own task", retry, { task: orderOf(retry) }, true],
    ["a later task of its own job", retry, { task: orderOf(posting(2)) }, true],
    ["the record that owes it", retry, { record: record({ state: "queued", retries: 1, fence: by(1) }) }, false],
    ["its own claim", retry, { record: record({ retries: 1, fence: by(1, retry) }) }, true],
    ["a later retry", retry, { record: record({ state: "queued", retries: 2, fence: by(1) }) }, true],
    ["the end of its run", retry, { record: record({ state: "failed" }) }, true],
    ["a later run", retry, { record: record({ run: 2, state: "queued" }) }, true],
    ["an earlier run", posting(2), { record: record({ state: "succeeded" }) }, false],
  ])("by %s: %j", (_, followUp, kept, known) => expect(isPosted(followUp, "j", kept)).toBe(known))
})

describe("a claim", () => {
  test.each([
    ["nothing", undefined, "start"],
    ["an outcome", record({ state: "failed", fence: by(2) }), "finished"],
    ["this very claim", record({ fence: by(2) }), "repeated"],
    ["a hand-back of this very delivery", record({ state: "queued", fence: by(2) }), "superseded"],
    ["an earlier claim", record({ fence: by(1) }), "start"],
    ["a later claim", record({ fence: by(3) }), "superseded"],
    ["a claim of the same posting in another task", record({ fence: by(2, posting(), "other") }), "superseded"],
    ["a later hand-back", record({ state: "queued", fence: by(3) }), "superseded"],
    ["a decision from outside", record({ state: "queued" }), "start"],
  ])("that finds %s: %s", (_, stored, verdict) => expect(judgeStart(stored, first, attempt(2))).toBe(verdict))

  test("of a retry goes on from the record that names it", () => {
    const stored = record({ state: "queued", retries: 1, successor: "j/1/1", fence: by(7) })
    expect(judgeStart(stored, positionOf(retry), attempt(1, retry))).toBe("start")
  })
})

describe("an outcome", () => {
  const done = record({ state: "succeeded" })
  test.each([
    ["nothing", undefined, "retry"],
    ["its own claim", record({ fence: by(2) }), "retry"],
    ["itself", record({ state: "succeeded", fence: by(2) }), "stored"],
    ["another outcome of its own", record({ state: "failed", fence: by(2) }), "superseded"],
    ["a cancellation", record({ state: "cancelled" }), "superseded"],
    ["a later claim", record({ fence: by(3) }), "superseded"],
    ["a later hand-back", record({ state: "queued", fence: by(3) }), "superseded"],
    ["an earlier claim, where it needed none", record({ fence: by(1) }), "retry"],
    ["a run that somebody began without a name", record(), "superseded"],
    ["a record that was posted again", record({ state: "queued" }), "retry"],
    ["a claim of another task", record({ fence: by(1), task: "image" }), "superseded"],
    ["a job that waits for others", record({ state: "deferred" }), "superseded"],
  ])("that meets %s: %s", (_, stored, verdict) => expect(judgeConflict(stored, done, attempt(2))).toBe(verdict))

  test("of a dead letter under its own id is done once it is there", () => {
    const dead = record({ id: "duplicate-x", state: "failed", dead: "duplicate-id" })
    expect(judgeConflict({ ...dead, run: 2, state: "started", fence: by(3) }, dead, attempt(2))).toBe("stored")
  })

  test("of what cannot be read is done once it is recorded by anybody", () => {
    const mine = { ...attempt(2), fence: `${NO_ORDER}.2.t2`, order: NO_ORDER }
    expect(judgeConflict(record({ state: "failed", fence: `${NO_ORDER}.1.t1` }), done, mine)).toBe("stored")
  })
})

describe("the id of a task is that of another job", () => {
  const digest = "its-own"
  const asked = (of = posting()) => ({ posting: of, digest, at: 1_000 })
  const bare = { ...posting(), message: { ...message(), body: new Uint8Array() } }
  const other = { ...posting(), message: message({ task: "image" }) }
  test.each([
    ["the same task", record(), asked(), false],
    ["the same body", record({ message: message() }), { posting: posting(), at: 0 }, false],
    ["the same digest", record({ digest }), asked(), false],
    ["another digest", record({ digest: "another" }), asked(), true],
    ["another body", record({ message: message() }), { posting: bare, at: 0 }, true],
    ["another body in its retry", record({ followUps: [posting(1, 1)] }), { posting: bare, at: 0 }, true],
    ["another actor", record(), asked(other), true],
    ["another method", record({ meth: "count" }), asked(), true],
    ["another task, and has ended", record({ state: "succeeded" }), asked(other), true],
    ["the same task, and has ended", record({ state: "succeeded", digest }), asked(), false],
    ["jobs to wait for, and no task", record({ state: "deferred" }), asked(), true],
    ["a chord's results by now", record({ digest: "before", chord: { size: 2 } }), asked(), false],
    ["an earlier run", record({ state: "failed" }), asked(posting(2)), true],
    ["an earlier retry", record({ state: "queued" }), asked(posting(1, 1)), true],
    ["named the task as its next", record({ state: "queued", successor: "j/1/1" }), asked(posting(1, 1)), false],
    ["a later run", record({ run: 2, digest }), asked(), false],
    ["a later run of another task", record({ run: 2, task: "image" }), asked(), true],
  ])("where that has %s: %s", (_, stored, start, is) =>
    expect(isOfAnother(stored, start, { first: true, external: false })).toBe(is),
  )

  test("but not where its job was deleted, and the id is used anew", () => {
    const stored = record({ run: 2, task: "image" })
    expect(isOfAnother(stored, asked(), { first: false, external: false })).toBe(false)
  })

  test.each([
    ["waits in its queue", record({ state: "queued" }), false],
    ["was handed to a worker of Celery's", record({ state: "scheduled", dueAt: 900 }), false],
    ["is due later", record({ state: "scheduled", dueAt: 1_100 }), true],
    ["has another name", record({ task: "image", state: "queued" }), true],
  ])("where a task counts a retry more, as a worker of Celery's would, and the job %s: %s", (_, stored, is) => {
    const start = asked({ ...bare, retries: 1 })
    expect(isOfAnother(stored, start, { first: true, external: true })).toBe(is)
    expect(isOfAnother(stored, start, { first: true, external: false })).toBe(true)
  })

  const mine = { ...attempt(2), fence: `${orderOf(posting())}.2.7` }
  test.each([
    ["nothing", undefined, false],
    ["that very task", { content: other.message, sequence: 7 }, false],
    ["the same task", { content: message(), sequence: 3 }, false],
    ["a later one", { content: other.message, sequence: 8 }, false],
    ["an earlier one", { content: other.message, sequence: 6 }, true],
    ["one in another transport", { content: other.message }, true],
  ])("where %s waits in a queue: %s", (_, task, is) => {
    const known = task && { revision: "", task: { queue: "q", at: 0, ...task } }
    expect(isPreceded(known, message(), mine, 1_000)).toBe(is)
  })

  const earlier = { queue: "q", at: 0, content: other.message }
  test.each([
    ["may have been taken by one", earlier, false],
    ["is due later", { ...earlier, due: 1_100 }, true],
    ["waits in its queue", { ...earlier, held: false }, true],
  ])("where a task replaces another, as a worker of Celery's does, and that one %s: %s", (_, task, is) => {
    const replacing = message({ replaced_task_nesting: 1 })
    expect(isPreceded({ revision: "", task }, replacing, mine, 1_000)).toBe(is)
  })
})
