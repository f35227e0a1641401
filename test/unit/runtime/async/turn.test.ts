import { expect, test } from "vitest"
import { Turn } from "../../../../runtime/async/turn.ts"

/** Adds items as the only ones of their turn, and says how they were handed on, and how many before the turn ended. */
const alone = async (count: number, max?: number) => {
  const calls: Array<ReadonlyArray<number>> = []
  const turn = new Turn<number>((items) => calls.push(items), max)
  for (let at = 0; at < count; at++) turn.add(at, max === undefined)
  const atOnce = calls.length
  await new Promise((resolve) => setImmediate(resolve))
  return { calls, atOnce }
}

test("an item that is alone is handed on at once", async () => {
  expect(await alone(1)).toEqual({ calls: [[0]], atOnce: 1 })
})

test("and only one in a turn, so that a chain of them keeps nothing else from its turn", async () => {
  expect(await alone(3)).toEqual({ calls: [[0], [1, 2]], atOnce: 1 })
})

test("other items are handed on at the end of their turn, or once there are as many as one call takes", async () => {
  expect(await alone(2, 3)).toEqual({ calls: [[0, 1]], atOnce: 0 })
  expect(await alone(4, 3)).toEqual({ calls: [[0, 1, 2], [3]], atOnce: 1 })
})
