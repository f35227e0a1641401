import { ExtData, decode as libraryDecode, encode as libraryEncode } from "@msgpack/msgpack"
import { Result } from "effect"
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { msgpackCodec } from "../../../../../runtime/protocol/codec/msgpack.ts"
import { Exact, ExactDate } from "../../../../../runtime/protocol/exact.ts"
import { jsonish } from "../arbitrary.ts"
import { canonical } from "../vectors.ts"

const read = (...bytes: ReadonlyArray<number>): unknown => Result.getOrThrow(msgpackCodec.decode(new Uint8Array(bytes)))
const refused = (...bytes: ReadonlyArray<number>): string => {
  const { reason, message } = Result.getOrThrow(Result.flip(msgpackCodec.decode(new Uint8Array(bytes))))
  return `${reason}: ${message}`
}
const back = (value: unknown): unknown =>
  Result.getOrThrow(msgpackCodec.decode(Result.getOrThrow(msgpackCodec.encode(value))))

describe("reading", () => {
  test("every form of every type", () => {
    expect(read(0x7f)).toBe(127)
    expect(read(0xe0)).toBe(-32)
    expect(read(0xcc, 0xff)).toBe(255)
    expect(read(0xcd, 1, 0)).toBe(256)
    expect(read(0xce, 0xff, 0xff, 0xff, 0xff)).toBe(2 ** 32 - 1)
    expect(read(0xcf, 0, 0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)).toBe(Number.MAX_SAFE_INTEGER)
    expect(read(0xcf, 0x80, 0, 0, 0, 0, 0, 0, 0)).toBe(2n ** 63n)
    expect(read(0xd0, 0x80)).toBe(-128)
    expect(read(0xd1, 0x80, 0)).toBe(-32768)
    expect(read(0xd2, 0x80, 0, 0, 0)).toBe(-(2 ** 31))
    expect(read(0xd3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)).toBe(-1)
    expect(read(0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0)).toBe(-(2n ** 63n))
    expect(read(0xca, 0x3f, 0xc0, 0, 0)).toBe(1.5)
    expect(read(0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0)).toBe(Number.NaN)
    expect([read(0xc0), read(0xc2), read(0xc3)]).toEqual([null, false, true])
    expect([read(0xa1, 0x61), read(0xd9, 1, 0x61), read(0xda, 0, 1, 0x61), read(0xdb, 0, 0, 0, 1, 0x61)]).toEqual(
      Array(4).fill("a"),
    )
    expect([read(0xc4, 1, 9), read(0xc5, 0, 1, 9), read(0xc6, 0, 0, 0, 1, 9)]).toEqual(
      Array(3).fill(new Uint8Array([9])),
    )
    expect([read(0x91, 1), read(0xdc, 0, 1, 1), read(0xdd, 0, 0, 0, 1, 1)]).toEqual([[1], [1], [1]])
    expect([
      read(0x81, 0xa1, 0x61, 1),
      read(0xde, 0, 1, 0xd9, 1, 0x61, 1),
      read(0xdf, 0, 0, 0, 1, 0xda, 0, 1, 0x61, 1),
    ]).toEqual(Array(3).fill({ a: 1 }))
    expect(read(0x81, 0xdb, 0, 0, 0, 1, 0x61, 1)).toEqual({ a: 1 })
  })

  test("extensions are handed on, timestamps are dates", () => {
    expect(read(0xd4, 5, 1)).toEqual(new ExtData(5, new Uint8Array([1])))
    expect(read(0xc7, 3, 0x80, 1, 2, 3)).toEqual(new ExtData(-128, new Uint8Array([1, 2, 3])))
    expect(read(0xd6, 0xff, 0, 0, 0, 1)).toMatchObject({ text: "1970-01-01T00:00:01+00:00" })
    expect(read(0xd7, 0xff, 0, 0, 0, 4, 0, 0, 0, 1)).toMatchObject({ text: "1970-01-01T00:00:01.000000001+00:00" })
    expect(read(0xc7, 12, 0xff, 0, 0, 3, 0xe8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)).toMatchObject({
      text: "1969-12-31T23:59:59.000001+00:00",
    })
    // Timestamps of an unknown length, beyond the year 9999, and with too many nanoseconds.
    expect(read(0xd4, 0xff, 1)).toBeInstanceOf(ExtData)
    expect(read(0xc7, 12, 0xff, 0, 0, 0, 0, 0x7f, 0, 0, 0, 0, 0, 0, 0)).toBeInstanceOf(ExtData)
    expect(read(0xd7, 0xff, 0xff, 0xff, 0xff, 0xfc, 0, 0, 0, 1)).toBeInstanceOf(ExtData)
  })

  test.each<readonly [string, ReadonlyArray<number>]>([
    ["nothing", []],
    ["a missing byte", [0xcd, 1]],
    ["a list that lies about its length", [0xdd, 0xff, 0xff, 0xff, 0xff, 1]],
    ["lists of lists that do", [0xdd, 0x7f, 0xff, 0xff, 0xff, 0xdd, 0x7f, 0xff, 0xff, 0xff]],
    ["text that lies about its length", [0xdb, 0xff, 0xff, 0xff, 0xff, 0x61]],
    ["bytes that do", [0xc6, 0xff, 0xff, 0xff, 0xff]],
    ["an extension that does", [0xc9, 0xff, 0xff, 0xff, 0xff, 1]],
    ["a map that does", [0xdf, 0xff, 0xff, 0xff, 0xff]],
    ["bytes that follow", [1, 1]],
    ["a key that is a number", [0x81, 1, 1]],
    ["a key that is bytes", [0x81, 0xc4, 1, 0x61, 1]],
    ["a key that is nothing", [0x81, 0xc0, 1]],
    ["the byte that means nothing", [0xc1]],
    ["text that is not UTF-8", [0xa2, 0xff, 0xfe]],
    ["long text that is not UTF-8", [0xd9, 20, ...Array(19).fill(0x61), 0xff]],
  ])("%s is malformed", (_name, bytes) => {
    expect(refused(...bytes)).toMatch(/^malformed: not valid msgpack/)
  })

  test("reads what the library writes", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const plain: unknown = JSON.parse(JSON.stringify(value))
        if (JSON.stringify(plain).includes("__proto__")) return
        expect(Result.getOrThrow(msgpackCodec.decode(libraryEncode(plain)))).toEqual(plain)
      }),
    )
  })
})

describe("writing", () => {
  test("every value reads back", () => {
    fc.assert(fc.property(jsonish, (value) => void expect(canonical(back(value))).toEqual(canonical(value))))
  })

  test("the library reads what is written, integers as integers", () => {
    const bytes = Result.getOrThrow(msgpackCodec.encode({ a: [5_000_000_000, -5_000_000_000, 2 ** 31, 1.5, "x"] }))
    expect(libraryDecode(bytes)).toEqual({ a: [5_000_000_000, -5_000_000_000, 2 ** 31, 1.5, "x"] })
    expect([...Result.getOrThrow(msgpackCodec.encode(5_000_000_000))][0]).toBe(0xcf)
  })

  test("dates, views, sets, maps, extensions", () => {
    expect(back(new Date(1500))).toMatchObject({ text: "1970-01-01T00:00:01.500000+00:00" })
    expect(back(new ExactDate(0, "1970-01-01T02:00:00.000001+02:00"))).toMatchObject({
      text: "1970-01-01T00:00:00.000001+00:00",
    })
    expect(back(new ExactDate(-1001, "1970-01-01T00:53:26.999+00:53:28"))).toMatchObject({
      text: "1969-12-31T23:59:58.999000+00:00",
    })
    expect(
      back([new Uint8Array([9, 1, 2]).subarray(1), new Uint16Array([0x0201]), new Uint16Array([0x0201]).buffer]),
    ).toEqual(Array(3).fill(new Uint8Array([1, 2])))
    expect(back([new Set([1]), new Map([["a", undefined]]), { u: undefined, j: new URL("http://a/") }])).toEqual([
      [1],
      {},
      { j: "http://a/" },
    ])
    expect(back(new ExtData(5, new Uint8Array([1])))).toEqual(new ExtData(5, new Uint8Array([1])))
    const holes: Array<unknown> = [1]
    holes[2] = undefined
    expect(back(holes)).toEqual([1, null, null])
  })

  test.each([
    ["an integer of 65 bits", 2n ** 64n],
    ["one below 64 bits", -(2n ** 63n) - 1n],
    ["a decimal", new Exact("decimal", "1.5")],
    ["a key that is a number", new Map([[1, 2]])],
    ["a function", () => 1],
    ["an invalid date", new Date(Number.NaN)],
  ])("%s is refused", (_name, value) => {
    expect(Result.flip(msgpackCodec.encode([value]))).toMatchObject({ success: { reason: "unserialisable" } })
    // The encoder still works after a failure.
    expect(back([1])).toEqual([1])
  })
})

test.each([
  ["a text", { items: ["a\ud800b"] }, ".items[0]"],
  ["a key", { items: { "\udc00": 1 } }, ".items"],
])("%s with half a character is refused, since no reader takes its bytes", (_name, value, place) => {
  const { reason, message } = Result.getOrThrow(Result.flip(msgpackCodec.encode(value)))
  expect(`${reason}: ${message}`).toContain(`unserialisable: cannot be written as msgpack: ${place}`)
  expect(back({ items: ["a\ud83d\ude00b"] })).toEqual({ items: ["a😀b"] })
})
