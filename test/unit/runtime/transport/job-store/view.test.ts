import { describe, expect, test } from "vitest"
import { encodeStored, toPosting } from "../../../../../runtime/transport/job-store/codec.ts"
import { TOMBSTONE_MS } from "../../../../../runtime/transport/job-store/transport.ts"
import { viewOf } from "../../../../../runtime/transport/job-store/view.ts"
import { posting, record } from "./samples.ts"

const NOW = 10_000_000
const { frame: content } = toPosting(posting(), 0)
const task = { queue: "q", at: 50, held: false, content }
const known = (of: ReturnType<typeof record>) => ({ revision: "7", record: encodeStored(of) })
const { message } = posting()

describe("a job of which only the task is known", () => {
  test.each([
    ["waits", task, "queued"],
    ["is put off", { ...task, due: NOW + 1 }, "scheduled"],
    ["is due", { ...task, due: NOW }, "queued"],
    ["is in somebody's hands", { ...task, due: NOW + 1, held: true }, "queued"],
  ])("that %s", (_, queued, state) =>
    expect(viewOf({ revision: "", task: queued }, undefined, NOW)).toMatchObject({ id: "j", state, message }),
  )

  test("cannot be shown where it is no task", () => {
    expect(viewOf({ revision: "", task: { ...task, content: Uint8Array.of(9) } }, undefined, NOW)).toBeUndefined()
  })
})

describe("a stored job", () => {
  const waiting = record({ state: "scheduled" })
  test("carries its task, and waits as its task does", () => {
    expect(viewOf({ ...known(waiting), task }, undefined, NOW)).toEqual({ ...waiting, state: "queued", message })
    const started = record()
    expect(viewOf({ ...known(started), task }, undefined, NOW)).toEqual({ ...started, message })
    expect(viewOf(known(started), undefined, NOW)).toEqual(started)
  })

  const note = (about: string) => ({ about, record: record({ progress: { fraction: 0.5, at: 1 } }) })
  test.each([
    ["of its revision", "7", true, 0.5],
    ["of its revision, where the broker does not tell who has the task", "7", undefined, 0.5],
    ["of another revision", "6", true, undefined],
    ["of its revision, once its lease has ended", "7", false, undefined],
  ])("shows a note %s: %s", (_, about, held, fraction) => {
    const { held: _held, ...rest } = task
    const queued = held === undefined ? rest : { ...rest, held }
    expect(viewOf({ ...known(record()), task: queued }, note(about), NOW)?.progress?.fraction).toBe(fraction)
  })
})

describe("an ended job", () => {
  const ended = record({
    state: "failed",
    endedAt: NOW - 100,
    keepMs: 100,
    result: 1,
    followUps: [posting(1, 0, 0, "c")],
  })
  test("is kept, then a tombstone for an hour, then nothing", () => {
    expect(viewOf(known(ended), undefined, NOW - 1)).toEqual(ended)
    expect(viewOf({ ...known(ended), task }, undefined, NOW - 1)).toEqual(ended)
    expect(viewOf({ ...known(ended), task }, undefined, NOW)).toMatchObject({ tombstone: true, state: "failed" })
    expect(viewOf(known(ended), undefined, NOW)?.followUps).toHaveLength(1)
    expect(viewOf(known(ended), undefined, NOW + TOMBSTONE_MS - 1)).toMatchObject({ tombstone: true })
    expect(viewOf(known(ended), undefined, NOW + TOMBSTONE_MS)).toBeUndefined()
  })

  test("is kept for ever where its time is negative", () => {
    expect(viewOf(known({ ...ended, keepMs: -1 }), undefined, NOW * 2)).toMatchObject({ result: 1 })
  })

  test("that was deleted is a tombstone for as long as the driver keeps it", () => {
    const buried = record({ state: "failed", endedAt: 1, keepMs: 0, tombstone: true })
    expect(viewOf({ ...known(buried), task }, undefined, NOW * 2)).toEqual(buried)
  })
})
