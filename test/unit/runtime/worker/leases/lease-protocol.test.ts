import { describe, expect, test } from "vitest"
import { GRACE_MS, SharedHeartbeat, SharedToken } from "../../../../../runtime/worker/leases/lease-protocol.ts"

const note = {
  token: "t.1",
  fence: "0001",
  id: "job",
  startedAt: 500,
  hardSeconds: 0.5,
  rejects: true,
  keepMs: -1,
  once: true,
}

describe("the note of the last run", () => {
  test("reads as it was written, by whoever shares the memory, whatever the id is", () => {
    const clock = new SharedHeartbeat()
    const other = new SharedHeartbeat(clock.buffer)
    expect(other.lastRun(0)).toBeUndefined()
    for (const id of ["job", "two\nlines\n", "é".repeat(127), "\u0000"]) {
      clock.note({ ...note, id })
      expect(other.lastRun(0)).toEqual({ ...note, id })
    }
  })

  test("that is too long is left out, and does not leave the one before in its place", () => {
    const clock = new SharedHeartbeat()
    clock.note(note)
    clock.note({ ...note, token: "t".repeat(2_048) })
    expect(clock.lastRun(0)).toBeUndefined()
  })
})

describe("the run that blocks", () => {
  test("is the one that was called last, unless the thread has turned since and its hard limit is still to come", () => {
    const main = new SharedHeartbeat()
    const other = new SharedHeartbeat(main.buffer)
    main.beat()
    main.note(note)
    expect(other.lastRun(999)).toEqual(note)
    main.beat()
    expect(other.lastRun(999)).toBeUndefined()
    expect(other.lastRun(1_000)).toEqual(note)
  })
})

describe("the token of the newest delivery", () => {
  test("is read once by the other thread, and only the last one that was written", () => {
    const main = new SharedToken()
    const other = new SharedToken(main.buffer)
    expect(other.read()).toBeUndefined()
    for (const token of ["a token that is longer than the next one", "t.2", "é\n.3"]) {
      main.write("replaced")
      expect(main.write(token)).toBe(true)
      expect([other.read(), other.read()]).toEqual([token, undefined])
    }
  })

  test("is not read after its delivery has ended", () => {
    const main = new SharedToken()
    const other = new SharedToken(main.buffer)
    main.write("t.1")
    main.clear()
    expect(other.read()).toBeUndefined()
    main.write("t.2")
    expect(other.read()).toBe("t.2")
  })

  test("that is too long is not written, and the one before stays", () => {
    const main = new SharedToken()
    main.write("t.1")
    expect(main.write("t".repeat(1_025))).toBe(false)
    expect(main.write("é".repeat(513))).toBe(false)
    expect(new SharedToken(main.buffer).read()).toBe("t.1")
  })
})

describe("a thread", () => {
  /** The main thread's side of the shared memory, and the lease thread's side. */
  const threads = () => {
    const main = new SharedHeartbeat()
    return { main, other: new SharedHeartbeat(main.buffer) }
  }

  test("is blocked when it has not turned since its earliest hard limit, and the grace is over", () => {
    const { main, other } = threads()
    main.deadline(performance.now() + 10_000)
    // The monotonic clock of the other thread started at another moment.
    const now = 5
    expect(other.isBlocked(now)).toBe(false)
    expect(other.isBlocked(now + 9_000 + GRACE_MS)).toBe(false)
    expect(other.isBlocked(now + 10_001 + GRACE_MS)).toBe(true)
    main.beat()
    expect(other.isBlocked(now + 10_001 + GRACE_MS)).toBe(false)
  })

  test("is not blocked while nothing runs, however long it has not turned", () => {
    const { main, other } = threads()
    expect(other.isBlocked(1e9)).toBe(false)
    main.beat()
    expect(other.isBlocked(1e9)).toBe(false)
    main.deadline(Number.POSITIVE_INFINITY)
    expect(other.isBlocked(2e9)).toBe(false)
    expect(other.isBlocked(3e9)).toBe(false)
  })

  test("is still from its last heartbeat on while a handler runs, and for no longer than the other one was awake", () => {
    const { main, other } = threads()
    main.deadline(performance.now() + 10_000)
    expect([1_000, 2_000, 2_900].map((now) => other.stillMs(now, 1_200))).toEqual([0, 1_000, 1_900])
    // The process was stopped for a minute.
    expect(other.stillMs(62_900, 1_200)).toBe(3_100)
    main.beat()
    expect([63_000, 64_000].map((now) => other.stillMs(now, 1_200))).toEqual([0, 1_000])
    main.deadline(Number.POSITIVE_INFINITY)
    expect([65_000, 66_000].map((now) => other.stillMs(now, 1_200))).toEqual([0, 0])
  })

  test("is not blocked that has turned since", () => {
    const { main, other } = threads()
    main.deadline(performance.now() - GRACE_MS - 1)
    expect(other.isBlocked(0)).toBe(false)
    expect(other.isBlocked(1e9)).toBe(false)
  })
})
