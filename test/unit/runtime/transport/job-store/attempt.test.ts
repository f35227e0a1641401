import { describe, expect, test } from "vitest"
import type { Delivery } from "../../../../../runtime/transport/driver.ts"
import {
  attemptOf,
  inOrder,
  orderOf,
  orderOfKey,
  orderOfMessage,
  parseFence,
  readToken,
  tokenOf,
} from "../../../../../runtime/transport/job-store/attempt.ts"
import { message, posting } from "./samples.ts"

const delivery: Delivery = {
  token: "a token, 1",
  queue: "q",
  level: 4,
  sequence: 7,
  first: true,
  fence: "0003",
  deliveries: 1,
  content: new Uint8Array(0),
}

test("postings of a job are ordered by run, retries and hops", () => {
  const rising = [
    [1, 0, 0],
    [1, 0, 1],
    [1, 1, 0],
    [1, 9, 0],
    [1, 10, 0],
    [1, 40, 0],
    [2, 0, 0],
    [36, 0, 0],
    [2 ** 31, 0, 0],
  ]
  const orders = rising.map(([run = 0, retries = 0, hops = 0]) => orderOf({ run, retries, hops }))
  expect(orders).toEqual([...new Set(orders)].sort())
  expect(orderOfKey("a/b", "a/b/2/1/3")).toBe(orderOf({ run: 2, retries: 1, hops: 3 }))
  expect(orderOfKey("j", "j/2/1")).toBe(orderOf({ run: 2, retries: 1 }))
  expect(orders.map(inOrder)).toEqual(rising.map(([run, retries]) => ({ run, retries })))
  expect(orderOfMessage(posting(3, 2, 1).message)).toBe(orderOf({ run: 3, retries: 2, hops: 1 }))
})

test("a token says all that any thread needs", () => {
  const attempt = attemptOf(delivery, message({ id: "a b\nc" }))
  expect(tokenOf(attempt)).not.toContain("\n")
  expect(readToken(tokenOf(attempt))).toEqual(attempt)
  expect(parseFence(attempt.fence)).toEqual({ order: orderOf(posting()), fence: "0003" })
  expect(parseFence("")).toBeUndefined()
  expect(attemptOf({ ...delivery, sequence: 8 }, message({ id: "a b\nc" })).fence).not.toBe(attempt.fence)
})

test.each(["", "x", "fno-space", "f a", "xa1a0a0.1.h j t", "fa1a0a0.1.h % t", "fa1a0a0.1.h j "])(
  "what is no token is refused: %j",
  (text) => expect(() => readToken(text)).toThrow(expect.objectContaining({ reason: "invalid" })),
)

describe("nothing can be stored about a job before", () => {
  test.each([
    ["the first delivery of a first posting", message(), true, true],
    ["a later delivery", message(), false, false],
    ["a retry", message({ retries: 1 }), true, false],
    ["a next run", message({}, { run: 2 }), true, false],
    ["one that was moved", message({}, { hops: 1 }), true, false],
    ["one that waited for others", message({}, { after: { ids: ["a"] } }), true, false],
    ["one whose headers lie in its body", { ...message(), headers: {} }, true, false],
    ["what cannot be read", { undecodable: "why", raw: new Uint8Array(0) }, true, true],
  ])("%s", (_, content, first, fresh) => expect(attemptOf({ ...delivery, first }, content).fresh).toBe(fresh))
})
