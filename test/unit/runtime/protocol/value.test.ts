import { Buffer } from "node:buffer"
import fc from "fast-check"
import { expect, test } from "vitest"
import { decodeBase64, encodeBase64 } from "../../../../runtime/protocol/exact.ts"

test("bytes read back, also many of them", () => {
  const readsBack = (bytes: Uint8Array) => Buffer.compare(decodeBase64(encodeBase64(bytes)), bytes) === 0
  fc.assert(fc.property(fc.uint8Array(), readsBack))
  expect(readsBack(new Uint8Array(300_000).map((_, at) => at * 7))).toBe(true)
})

test("padding is written, blanks are passed over, other text throws", () => {
  expect(encodeBase64(new Uint8Array([255]))).toBe("/w==")
  expect(decodeBase64("/w\n==")).toEqual(new Uint8Array([255]))
  expect(() => decodeBase64("***")).toThrow()
})
