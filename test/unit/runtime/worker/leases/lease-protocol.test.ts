import { describe, expect, test } from "vitest"
import {
  GRACE_MS,
  packTokens,
  SharedHeartbeat,
  SharedTokens,
  unpackTokens,
} from "../../../../../runtime/worker/leases/lease-protocol.ts"

const note = { token: "t.1", fence: "0001", id: "job", startedAt: 500, hardSeconds: 0.5, rejects: true, keepMs: -1 }

describe("the note of the last run", () => {
  test("reads as it was written, by whoever shares the memory, whatever the id is", () => {
    const clock = new SharedHeartbeat()
    const other = new SharedHeartbeat(clock.buffer)
    expect(other.lastRun()).toBeUndefined()
    for (const id of ["job", "two\nlines\n", "é".repeat(127), "\u0000"]) {
      clock.note({ ...note, id })
      expect(other.lastRun()).toEqual({ ...note, id })
    }
  })

  test("that is too long is left out, and does not leave the one before in its place", () => {
    const clock = new SharedHeartbeat()
    clock.note(note)
    clock.note({ ...note, token: "t".repeat(2_048) })
    expect(clock.lastRun()).toBeUndefined()
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

  test("is not blocked that has turned since", () => {
    const { main, other } = threads()
    main.deadline(performance.now() - GRACE_MS - 1)
    expect(other.isBlocked(0)).toBe(false)
    expect(other.isBlocked(1e9)).toBe(false)
  })
})

describe("tokens in shared memory", () => {
  /** The worker's side of the shared memory, and what the lease thread reads. */
  const threads = () => {
    const worker = new SharedTokens()
    const thread = new SharedTokens(worker.buffer)
    return { worker, read: () => unpackTokens(thread.read()) }
  }

  test("are read by the thread since they were cleared, as often as it likes", () => {
    const { worker, read } = threads()
    expect(read()).toEqual([])
    worker.add("fa1.1 job token")
    worker.add(packTokens(["two", "thrée"]))
    for (let times = 0; times < 2; times++) expect(read()).toEqual(["fa1.1 job token", "two", "thrée"])
    worker.clear()
    expect(read()).toEqual([])
    worker.add("four")
    expect(read()).toEqual(["four"])
  })

  test("for which there is no room are refused as a whole, until the others are cleared", () => {
    const { worker, read } = threads()
    const token = "t".repeat(1_000)
    let count = 0
    while (worker.add(token)) count++
    expect(count).toBeGreaterThan(100)
    expect(read()).toEqual(Array.from({ length: count }, () => token))
    worker.clear()
    expect(worker.add(token)).toBe(true)
    expect(read()).toEqual([token])
  })
})
