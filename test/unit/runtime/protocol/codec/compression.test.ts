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

  test.each(["application/x-lzma", "lzma", "", "x".repeat(1000)])("%.30s is not supported", (name) => {
    for (const outcome of [compress(data, name), decompress(data, name, 100)]) {
      expect(Result.flip(outcome)).toMatchObject({ success: { reason: "unsupported-compression" } })
    }
  })

  describe("bzip2", () => {
    // Written by bzip2 1.0.8: nothing, the text above, and 100,000 zeros twice in blocks of 100,000.
    const [empty, hello, zeros] = [
      "QlpoORdyRThQkAAAAAA=",
      "QlpoMTFBWSZTWQL4sL0AAAORAEAAAkSgADDNAFSGlnGbOKPF3JFOFCQAviwvQA==",
      "QlpoMTFBWSZTWd4aBzoAAYhEAMAAAAQACCAAMMwFKaYIWxCF4u5IpwoSG8NA50A=",
    ].map((text) => Uint8Array.from(Buffer.from(text, "base64")))

    test.each(["application/x-bz2", "bzip2"])("%s is read, and never written", (name) => {
      expect(Result.getOrThrow(decompress(hello ?? data, name, data.length))).toEqual(data)
      expect(Result.getOrThrow(decompress(empty ?? data, name, 0))).toEqual(new Uint8Array())
      expect(Result.flip(compress(data, name))).toMatchObject({ success: { reason: "unsupported-compression" } })
    })

    test("several blocks and streams, bounded while they grow", () => {
      const twice = Uint8Array.from([...(hello ?? []), ...(zeros ?? [])])
      const large = Result.getOrThrow(decompress(twice, "bzip2", 300_000))
      expect(Buffer.compare(large, Buffer.concat([data, new Uint8Array(200_000)]))).toBe(0)
      for (const limit of [0, 1000, large.length - 1])
        expect(Result.flip(decompress(twice, "bzip2", limit))).toMatchObject({ success: { reason: "too-large" } })
    })

    test("bytes that were cut or changed are malformed", () => {
      for (let at = 0; at < (hello?.length ?? 0); at++) {
        const changed = Uint8Array.from(hello ?? [])
        changed[at] = (changed[at] ?? 0) ^ 0x10
        const outcomes = [decompress(changed, "bzip2", 1000), decompress(changed.subarray(0, at), "bzip2", 1000)]
        for (const outcome of outcomes)
          expect(Result.isFailure(outcome) || Buffer.compare(outcome.success, data) === 0, `byte ${at}`).toBe(true)
      }
    })
  })

  test("other bytes are malformed", () => {
    expect(Result.flip(decompress(data, "application/x-gzip", 100))).toMatchObject({ success: { reason: "malformed" } })
    expect(Result.flip(decompress(data, "application/zstd", 100))).toMatchObject({ success: { reason: "malformed" } })
    const cut = deflateSync(data).subarray(0, 10)
    expect(Result.flip(decompress(cut, "application/x-gzip", 100))).toMatchObject({ success: { reason: "malformed" } })
  })

  test("random bytes never throw", () => {
    fc.assert(
      fc.property(
        fc.uint8Array(),
        fc.constantFrom(...NAMES, "bzip2"),
        (bytes, name) => void decompress(bytes, name, 1000),
      ),
    )
  })
})
