import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib"
import { Result } from "effect"
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { compress, decompress } from "../../../../../runtime/protocol/codec/compression.ts"

const data = new TextEncoder().encode("hello hello hello hello")
const NAMES = ["application/x-gzip", "gzip", "zlib", "application/x-brotli", "brotli", "application/zstd", "zstd"]

describe("compression", () => {
  test.each(NAMES)("%s: both ways, and plain bytes come out", (name) => {
    const small = Result.getOrThrow(compress(data, name))
    const large = Result.getOrThrow(decompress(small, name, data.length))
    expect(large).toEqual(data)
    expect([small.constructor, large.constructor]).toEqual([Uint8Array, Uint8Array])
    expect(Result.getOrThrow(decompress(small, name.toUpperCase(), data.length))).toEqual(data)
  })

  test("application/x-gzip is written as a zlib stream, as kombu does, and read as gzip, too", () => {
    expect(Result.getOrThrow(compress(data, "application/x-gzip"))[0]).toBe(0x78)
    for (const bytes of [deflateSync(data), gzipSync(data)]) {
      expect(Result.getOrThrow(decompress(bytes, "application/x-gzip", 100))).toEqual(data)
    }
  })

  test.each([
    ["application/x-gzip", deflateSync],
    ["application/x-brotli", brotliCompressSync],
    ["application/zstd", zstdCompressSync],
  ] as const)("%s: the result is bounded while it grows", (name, pack) => {
    const bomb = pack(new Uint8Array(4_000_000))
    expect(bomb.length).toBeLessThan(100_000)
    for (const limit of [0, 1, 1000, 1_000_000]) {
      expect(Result.flip(decompress(bomb, name, limit))).toMatchObject({ success: { reason: "too-large" } })
    }
    expect(Result.isSuccess(decompress(pack(new Uint8Array(1000)), name, 1000))).toBe(true)
    expect(Result.flip(decompress(pack(new Uint8Array(1001)), name, 1000))).toMatchObject({
      success: { reason: "too-large" },
    })
  })

  test("and judged before its end is reached: of a stream that was cut only the size is told", () => {
    const cut = deflateSync(new Uint8Array(20_000_000)).subarray(0, -100)
    expect(Result.flip(decompress(cut, "zlib", 1000))).toMatchObject({ success: { reason: "too-large" } })
    expect(Result.flip(decompress(cut, "zlib", 30_000_000))).toMatchObject({ success: { reason: "malformed" } })
  })

  test.each(["application/x-bz2", "application/x-lzma", "bzip2", "", "x".repeat(1000)])(
    "%.30s is not supported",
    (name) => {
      for (const outcome of [compress(data, name), decompress(data, name, 100)]) {
        expect(Result.flip(outcome)).toMatchObject({ success: { reason: "unsupported-compression" } })
      }
    },
  )

  test("other bytes are malformed", () => {
    expect(Result.flip(decompress(data, "application/x-gzip", 100))).toMatchObject({ success: { reason: "malformed" } })
    expect(Result.flip(decompress(data, "application/zstd", 100))).toMatchObject({ success: { reason: "malformed" } })
    const cut = deflateSync(data).subarray(0, 10)
    expect(Result.flip(decompress(cut, "application/x-gzip", 100))).toMatchObject({ success: { reason: "malformed" } })
  })

  test("random bytes never throw", () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.constantFrom(...NAMES), (bytes, name) => void decompress(bytes, name, 1000)),
    )
  })
})
