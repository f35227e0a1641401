import { expect, test } from "vitest"
import { Batcher, Turn } from "../../../../runtime/async/batcher.ts"

/** What came of three items that were sent together. */
const outcomes = async (send: (items: ReadonlyArray<number>) => Promise<ReadonlyArray<number>>) => {
  const calls: Array<ReadonlyArray<number>> = []
  const batcher = new Batcher((items: ReadonlyArray<number>) => {
    calls.push(items)
    return send(items)
  })
  const settled = await Promise.allSettled([batcher.add(1), batcher.add(2), batcher.add(3)])
  expect(calls).toEqual([[1, 2, 3]])
  return settled.map((each) => (each.status === "fulfilled" ? each.value : String(each.reason)))
}

test("items of one turn are sent together, and each has its answer", async () => {
  expect(await outcomes(async (items) => items.map((item) => item * 10))).toEqual([10, 20, 30])
})

test("each fails as the call does", async () => {
  const away = "Error: away"
  expect(await outcomes(() => Promise.reject(new Error("away")))).toEqual([away, away, away])
})

test("also if the call throws instead of rejecting", async () => {
  const broken = (): never => {
    throw new Error("broken")
  }
  expect(await outcomes(broken)).toEqual(["Error: broken", "Error: broken", "Error: broken"])
})

test("an item without an answer fails, and the others have theirs", async () => {
  const few = "Error: the transport returned too few answers"
  expect(await outcomes(async () => [10])).toEqual([10, few, few])
})

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
