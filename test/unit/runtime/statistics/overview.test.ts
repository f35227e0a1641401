/** Answers that are used again. */
import { afterEach, beforeEach, expect, test, vi } from "vitest"
import { CachedAnswer } from "../../../../runtime/statistics/overview.ts"

let now = 0
let asked = 0
beforeEach(() => {
  now = 1_000
  asked = 0
  vi.spyOn(performance, "now").mockImplementation(() => now)
})
afterEach(() => void vi.restoreAllMocks())

/** Answers with the number of the question, after a time. */
const taking = (ms: number) => async () => {
  asked++
  const answer = asked
  await Promise.resolve()
  now += ms
  return answer
}

test("an answer is used again for its time, by all who ask", async () => {
  const once = new CachedAnswer<number>(1_000)
  expect(await Promise.all([once.get(taking(1)), once.get(taking(1))])).toEqual([1, 1])
  now += 999
  expect(await once.get(taking(1))).toBe(1)
  now += 1
  expect(await once.get(taking(1))).toBe(2)
})

test("what takes long is asked rarely, and not waited for once there is an answer", async () => {
  const once = new CachedAnswer<number>(1_000)
  expect(await once.get(taking(200))).toBe(1)
  now += 3_999
  expect(await once.get(taking(200))).toBe(1)
  now += 1
  expect(await once.get(taking(200))).toBe(1)
  await Promise.resolve()
  expect(await once.get(taking(200))).toBe(2)
  expect(asked).toBe(2)
  // An answer of this age is not used any more.
  now += 40_000
  expect(await once.get(taking(200))).toBe(3)
})

test("what failed, and what is not true any more, is asked again", async () => {
  const once = new CachedAnswer<number>(1_000)
  await expect(once.get(() => Promise.reject(new Error("away")))).rejects.toThrow("away")
  expect(await once.get(taking(1))).toBe(1)
  once.forget()
  const late = once.get(taking(1))
  once.forget()
  expect(await once.get(taking(1))).toBe(3)
  expect(await late).toBe(2)
  expect(await once.get(taking(1))).toBe(3)
})
