/** When a worker ends by itself. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest"
import { StopCondition } from "../../../../runtime/worker/stop-condition.ts"

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

describe("a worker that may be idle for a minute", () => {
  const idleWorker = () => {
    const state = { inFlight: 0, isSpent: false }
    const reasons: Array<string> = []
    const condition = new StopCondition({
      burst: false,
      maxIdleMs: 60_000,
      inFlight: () => state.inFlight,
      isBusy: () => false,
      isSpent: () => state.isSpent,
      onStop: (reason) => reasons.push(reason),
    })
    const holds = (count: number): void => {
      state.inFlight = count
      condition.check()
    }
    return { state, reasons, holds }
  }

  test("ends after it", () => {
    const { reasons } = idleWorker()
    vi.advanceTimersByTime(59_999)
    expect(reasons).toEqual([])
    vi.advanceTimersByTime(1)
    expect(reasons).toEqual(["max-idle"])
  })

  test("does not end while it has a delivery, and waits for a minute again after it", () => {
    const { reasons, holds } = idleWorker()
    vi.advanceTimersByTime(30_000)
    holds(1)
    vi.advanceTimersByTime(90_000)
    expect(reasons).toEqual([])
    holds(0)
    vi.advanceTimersByTime(59_999)
    expect(reasons).toEqual([])
    vi.advanceTimersByTime(1)
    expect(reasons).toEqual(["max-idle"])
  })

  test("ends at once when it has taken as many jobs as it may", () => {
    const { state, reasons, holds } = idleWorker()
    holds(1)
    state.isSpent = true
    holds(1)
    expect(reasons).toEqual([])
    holds(0)
    expect(reasons).toEqual(["max-jobs"])
  })
})
