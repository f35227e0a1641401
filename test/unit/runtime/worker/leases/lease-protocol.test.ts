import { describe, expect, test } from "vitest"
import { GRACE_MS, SharedClock } from "../../../../../runtime/worker/leases/lease-protocol.ts"

const note = { token: "t.1", fence: "0001", id: "job", hardAt: 1_000, hardSeconds: 0.5, rejects: true, keepMs: -1 }

describe("the note of the last run", () => {
  test("reads as it was written, by whoever shares the memory, whatever the id is", () => {
    const clock = new SharedClock()
    const other = new SharedClock(clock.buffer)
    expect(other.lastRun()).toBeUndefined()
    for (const id of ["job", "two\nlines\n", "é".repeat(127), "\u0000"]) {
      clock.note({ ...note, id })
      expect(other.lastRun()).toEqual({ ...note, id })
    }
  })

  test("that is too long is left out, and does not leave the one before in its place", () => {
    const clock = new SharedClock()
    clock.note(note)
    clock.note({ ...note, token: "t".repeat(2_048) })
    expect(clock.lastRun()).toBeUndefined()
  })
})

describe("a thread", () => {
  test("is blocked when it has not turned since its earliest hard limit, and the grace is over", () => {
    const clock = new SharedClock()
    clock.beat()
    const now = Date.now()
    clock.deadline(now + 10_000)
    expect(clock.isBlocked(now + 10_000 + GRACE_MS)).toBe(false)
    expect(clock.isBlocked(now + 10_001 + GRACE_MS)).toBe(true)
  })

  test("is not blocked while nothing runs, however long it has not turned", () => {
    const clock = new SharedClock()
    clock.beat()
    clock.deadline(Number.POSITIVE_INFINITY)
    expect(clock.isBlocked(Date.now() + 1e9)).toBe(false)
    expect(new SharedClock().isBlocked(Date.now())).toBe(false)
  })

  test("is not blocked that has turned since", () => {
    const clock = new SharedClock()
    clock.deadline(Date.now() - GRACE_MS - 1)
    clock.beat()
    expect(clock.isBlocked(Date.now())).toBe(false)
  })
})
