/** Renewals of claims and entities whose process, or whose store, stood still for longer than a lease. */
import { expect, onTestFinished, test, vi } from "vitest"
import { Renewals } from "../../../../runtime/board/renewals.ts"
import { CallboardError } from "../../../../runtime/errors.ts"

const LEASE_MS = 3_000

/** Renewals in virtual time, of something whose lease is over. Its store answers after `ms`. */
const late = (ms: number, handBack?: () => Promise<unknown>) => {
  vi.useFakeTimers({ toFake: ["performance", "setTimeout", "clearTimeout", "setInterval", "clearInterval"] })
  const renewals = new Renewals(LEASE_MS)
  onTestFinished(() => renewals.close())
  const answer = () =>
    new Promise((_, reject) => setTimeout(() => reject(new CallboardError("not-owner", "another owner has it")), ms))
  return renewals.add("it", performance.now() - 2 * LEASE_MS, answer, handBack)
}

test("an entity hears of its loss from a store that answers slowly", async () => {
  const loss = late(100, async () => undefined)
  await vi.advanceTimersByTimeAsync(LEASE_MS / 3)
  expect(loss.signal.aborted).toBe(false)
  await vi.advanceTimersByTimeAsync(100)
  expect(loss.signal.aborted).toBe(true)
})

test("a claim is lost without an answer, and no timer is set to a time that is over", async () => {
  const loss = late(100)
  const delays = vi.spyOn(globalThis, "setTimeout")
  await vi.advanceTimersByTimeAsync(LEASE_MS / 3 + 10)
  expect(loss.signal.aborted).toBe(true)
  expect(delays.mock.calls.map(([, ms]) => Number(ms)).filter((ms) => ms < 0)).toEqual([])
})
