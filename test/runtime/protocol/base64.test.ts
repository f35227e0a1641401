import fc from "fast-check"
import { expect, test } from "vitest"
import { decodeBase64, encodeBase64 } from "../../../runtime/protocol/base64.ts"

test("bytes read back, also many of them", () => {
  fc.assert(fc.property(fc.uint8Array(), (bytes) => void expect(decodeBase64(encodeBase64(bytes))).toEqual(bytes)))
  const many = new Uint8Array(300_000).map((_, at) => at * 7)
  expect(decodeBase64(encodeBase64(many))).toEqual(many)
})

test("padding is written, blanks are passed over, other text throws", () => {
  expect(encodeBase64(new Uint8Array([255]))).toBe("/w==")
  expect(decodeBase64("/w\n==")).toEqual(new Uint8Array([255]))
  expect(() => decodeBase64("***")).toThrow()
})
