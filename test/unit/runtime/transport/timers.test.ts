/** Deadlines of a thread that is blocked. A timer that is due behind the deadline stands for an answer that has arrived meanwhile. */
import { expect, test } from "vitest"
import { startDeadline, within } from "../../../../runtime/transport/timers.ts"
import { block } from "../../../support/block.ts"

const late = () => new Error("late")

test.each([40, 150])("an answer that arrives while the thread is blocked is in time: %i ms", async (ms) => {
  const answer = new Promise((resolve) => setTimeout(resolve, ms + 10, "answer"))
  const waiting = within(ms, answer, late)
  block(ms + 100)
  expect(await waiting).toBe("answer")
})

test("without an answer the deadline has its length", async () => {
  const began = performance.now()
  await expect(within(150, new Promise(() => undefined), late)).rejects.toThrow("late")
  expect(performance.now() - began).toBeGreaterThanOrEqual(149)
})

test.each([0, -1])("a deadline of %i ms ends soon", async (ms) => {
  await expect(within(ms, new Promise(() => undefined), late)).rejects.toThrow("late")
})

test("a deadline that is cancelled in its first or its last part is not called", async () => {
  let calls = 0
  const count = () => void calls++
  startDeadline(100, count)()
  const cancel = startDeadline(100, count)
  await new Promise((resolve) => setTimeout(resolve, 75))
  cancel()
  await new Promise<void>((resolve) => startDeadline(150, resolve))
  expect(calls).toBe(0)
})
