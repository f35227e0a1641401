import { expect, test } from "vitest"
import { Batcher } from "../../../../runtime/async/batcher.ts"

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
  const few = "Error: the transport gave fewer answers than it was asked"
  expect(await outcomes(async () => [10])).toEqual([10, few, few])
})
