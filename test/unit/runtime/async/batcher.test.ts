import { expect, onTestFinished, test } from "vitest"
import { Batcher } from "../../../../runtime/async/batcher.ts"

const broken = (): never => {
  throw new Error("this callback is broken")
}

/** The next unhandled rejection, which then does not fail the run. */
const unhandled = (): Promise<unknown> => {
  const others = process.listeners("unhandledRejection")
  process.removeAllListeners("unhandledRejection")
  onTestFinished(() => {
    for (const other of others) process.on("unhandledRejection", other)
  })
  return new Promise((resolve) => process.once("unhandledRejection", resolve))
}

/** What came of the items that follow one whose callbacks throw. */
const behindBroken = async (send: (items: ReadonlyArray<number>) => Promise<ReadonlyArray<number>>) => {
  const batcher = new Batcher(send)
  const thrown = unhandled()
  batcher.push({ item: 1, resolve: broken, reject: broken })
  const others = Promise.allSettled([batcher.add(2), batcher.add(3)])
  expect(await thrown).toMatchObject({ message: "this callback is broken" })
  return (await others).map((each) => (each.status === "fulfilled" ? each.value : String(each.reason)))
}

test("a callback that throws keeps no other item of its batch from its answer", async () => {
  expect(await behindBroken(async (items) => items.map((item) => item * 10))).toEqual([20, 30])
})

test("nor from the failure of their call", async () => {
  expect(await behindBroken(() => Promise.reject(new Error("away")))).toEqual(["Error: away", "Error: away"])
})

test("nor from learning that the answers were too few", async () => {
  const few = "Error: the transport gave fewer answers than it was asked"
  expect(await behindBroken(async () => [])).toEqual([few, few])
})

/** Adds items as the only ones of their turn, and says in which calls they were sent, and how many before the turn ended. */
const alone = async (count: number) => {
  const calls: Array<ReadonlyArray<number>> = []
  const batcher = new Batcher(async (items: ReadonlyArray<number>) => {
    calls.push(items)
    return items
  })
  const ended = new Promise((resolve) => setImmediate(resolve))
  const answered = Array.from(
    { length: count },
    (_, at) => new Promise((resolve, reject) => batcher.push({ item: at, resolve, reject }, true)),
  )
  const atOnce = calls.length
  await Promise.all([...answered, ended])
  return { calls, atOnce }
}

test("an item that is alone is sent at once", async () => {
  expect(await alone(1)).toEqual({ calls: [[0]], atOnce: 1 })
})

test("and only one in a turn, so that a chain of them keeps nothing else from its turn", async () => {
  expect(await alone(3)).toEqual({ calls: [[0], [1, 2]], atOnce: 1 })
})
