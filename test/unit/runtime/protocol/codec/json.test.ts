import { Result } from "effect"
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { parseExactJson } from "../../../../../runtime/protocol/codec/exact-json.ts"
import { jsonCodec, parseJson, renderJson } from "../../../../../runtime/protocol/codec/json.ts"
import { msgpackCodec } from "../../../../../runtime/protocol/codec/msgpack.ts"
import { yamlCodec } from "../../../../../runtime/protocol/codec/yaml.ts"
import { Exact, ExactDate } from "../../../../../runtime/protocol/exact.ts"
import { anyValue } from "../arbitrary.ts"
import { canonical } from "../vectors.ts"

const read = (text: string): unknown => Result.getOrThrow(parseJson(text))
const written = (value: unknown): string => Result.getOrThrow(renderJson(value))

describe("reading", () => {
  test("numbers are what they were meant to be", () => {
    expect(read("[NaN, Infinity, -Infinity, 1e400, -0.0, 1.5]")).toEqual([
      Number.NaN,
      Number.POSITIVE_INFINITY,
      Number.NEGATIVE_INFINITY,
      Number.POSITIVE_INFINITY,
      -0,
      1.5,
    ])
    expect(read("[9007199254740991, 9007199254740992, -9007199254740993, 12345678901234567890]")).toEqual([
      9007199254740991,
      9007199254740992n,
      -9007199254740993n,
      12345678901234567890n,
    ])
    expect(read("9007199254740993")).toBe(9007199254740993n)
    expect(read('{"a":-12345678901234567890}')).toEqual({ a: -12345678901234567890n })
    expect(read("[12345678901234567890.0, 0.12345678901234567, 12345678901234567890e3]")).toEqual([
      Number("12345678901234567890"),
      Number("0.12345678901234567"),
      Number("12345678901234567890e3"),
    ])
  })

  test("digits inside text stay text", () => {
    expect(read('["12345678901234567890", "a\\"12345678901234567890, ", 12345678901234567890]')).toEqual([
      "12345678901234567890",
      'a"12345678901234567890, ',
      12345678901234567890n,
    ])
  })

  test("lone surrogates stay", () => {
    expect(read('["\\ud83d"]')).toEqual(["\ud83d"])
    expect(read('["\\ud83d", NaN]')).toEqual(["\ud83d", Number.NaN])
  })

  test("typed values", () => {
    const wrap = (type: string, value: unknown): string => JSON.stringify({ __type__: type, __value__: value })
    const date = read(wrap("datetime", "2031-11-19T03:25:18.334169+02:00"))
    expect(date).toBeInstanceOf(ExactDate)
    expect(date).toBeInstanceOf(Date)
    expect(date).toMatchObject({ text: "2031-11-19T03:25:18.334169+02:00" })
    expect(date instanceof Date && date.getTime()).toBe(1952817918334)
    // Zones had offsets with seconds before they were standardised.
    const old = read(wrap("datetime", "1880-07-09T08:30:44.001000+00:53:28"))
    expect(old).toMatchObject({ text: "1880-07-09T08:30:44.001000+00:53:28" })
    expect(old instanceof Date && old.toISOString()).toBe("1880-07-09T07:37:16.001Z")
    expect(read(wrap("datetime", "1880-07-09T08:30:44-03:30:52.5"))).toEqual(new Date("1880-07-09T12:01:36.500Z"))
    expect(read(wrap("date", "2031-09-06"))).toEqual(new Exact("date", "2031-09-06"))
    expect(read(wrap("time", "20:57:24.052237"))).toEqual(new Exact("time", "20:57:24.052237"))
    expect(read(wrap("decimal", "1E+400"))).toEqual(new Exact("decimal", "1E+400"))
    expect(read(wrap("uuid", { hex: "815ea9839f684659a8ca24f41288d0d5", version: 4 }))).toEqual(
      new Exact("uuid", "815ea983-9f68-4659-a8ca-24f41288d0d5"),
    )
    expect(read(wrap("bytes", "hé"))).toEqual(new TextEncoder().encode("hé"))
    expect(read(wrap("base64", "AP8="))).toEqual(new Uint8Array([0, 255]))
    expect(String(read(wrap("decimal", "10.50")))).toBe("10.50")
  })

  test("a map with one key more, or less, is a plain map", () => {
    for (const map of [{ __type__: "date", __value__: "x", extra: 1 }, { __type__: "date" }, { __value__: 1 }]) {
      expect(read(JSON.stringify(map))).toEqual(map)
    }
  })

  test.each([
    '{"__type__":"complex","__value__":1}',
    '{"__type__":7,"__value__":1}',
    '{"__type__":"datetime","__value__":"tomorrow"}',
    '{"__type__":"datetime","__value__":7}',
    '{"__type__":"date","__value__":"2031-13-01"}',
    '{"__type__":"time","__value__":"noon"}',
    '{"__type__":"time","__value__":"99:99"}',
    '{"__type__":"time","__value__":"24:00"}',
    '{"__type__":"time","__value__":"12:60:00"}',
    '{"__type__":"time","__value__":"12:00:60"}',
    '{"__type__":"time","__value__":"12:00:00+24:00"}',
    '{"__type__":"decimal","__value__":"ten"}',
    '{"__type__":"decimal","__value__":10}',
    '{"__type__":"uuid","__value__":"815ea983-9f68-4659-a8ca-24f41288d0d5"}',
    '{"__type__":"uuid","__value__":{"hex":"xyz"}}',
    '{"__type__":"base64","__value__":"***"}',
    '{"__type__":"bytes","__value__":1}',
  ])("%s is malformed", (text) => {
    expect(Result.flip(parseJson(text))).toMatchObject({ success: { reason: "malformed" } })
    expect(Result.flip(parseJson(`[${text}]`))).toMatchObject({ success: { reason: "malformed" } })
  })

  test("bytes that are not UTF-8 are malformed, a byte order mark is passed over", () => {
    expect(Result.flip(jsonCodec.decode(new Uint8Array([0x22, 0xff, 0x22])))).toMatchObject({
      success: { reason: "malformed" },
    })
    expect(Result.getOrThrow(jsonCodec.decode(new Uint8Array([0xef, 0xbb, 0xbf, 0x31])))).toBe(1)
  })

  test("an integer of thousands of digits is refused quickly", () => {
    expect(Result.isSuccess(parseJson("9".repeat(4300)))).toBe(true)
    expect(Result.flip(parseJson("9".repeat(4301)))).toMatchObject({ success: { reason: "malformed" } })
  })
})

/** Exact integers as the runtime's own parser has them. */
const rounded = (value: unknown): unknown => {
  if (typeof value === "bigint") return Number(value)
  if (Array.isArray(value)) return value.map(rounded)
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, rounded(item)]))
}

describe("the exact reader", () => {
  test("agrees with the runtime's own on everything that one reads", () => {
    fc.assert(
      fc.property(fc.json(), fc.constantFrom(undefined, 1, "\t"), (text, indent) => {
        const shown = JSON.stringify(JSON.parse(text), null, indent)
        fc.pre(!shown.includes("__proto__"))
        expect(rounded(parseExactJson(shown))).toEqual(JSON.parse(shown))
      }),
    )
  })

  test("agrees with it on what is no JSON", () => {
    const pieces = fc.array(
      fc.constantFrom(...'[]{}:,"\\ \n-+.0123eEtrufalsn\u0001é', "true", "null", '"a"', "\\u00e9", "1"),
    )
    fc.assert(
      fc.property(pieces, (parts) => {
        const text = parts.join("")
        const attempt = (parse: (text: string) => unknown): string => {
          try {
            return JSON.stringify(parse(text))
          } catch {
            return "refused"
          }
        }
        expect(attempt(parseExactJson)).toBe(attempt(JSON.parse))
      }),
      { numRuns: 2000 },
    )
  })

  test("bare words inside text stay text, and of a key that comes twice the last one counts", () => {
    expect(read('["NaN", "a\\"Infinity, ", NaN]')).toEqual(["NaN", 'a"Infinity, ', Number.NaN])
    expect(read('{"a":[9007199254740993],"a":9007199254740995,"b":[1,-Infinity]}')).toEqual({
      a: 9007199254740995n,
      b: [1, Number.NEGATIVE_INFINITY],
    })
  })

  test("time rises with the length alone, and depth is bounded", { timeout: 20_000 }, () => {
    const length = 1_000_000
    const long = "\\n".repeat(length)
    expect(read(`["${long}",NaN]`)).toEqual(["\n".repeat(length), Number.NaN])
    for (const text of [`"${'\\"'.repeat(length)}NaN`, `[${'"\\",'.repeat(length)}NaN`, "NaN".repeat(length)]) {
      expect(Result.flip(parseJson(text))).toMatchObject({ success: { reason: "malformed" } })
    }
    for (const text of [`${"[".repeat(501)}NaN${"]".repeat(501)}`, `${"[".repeat(length)}NaN${"]".repeat(length)}`]) {
      expect(Result.flip(parseJson(text))).toMatchObject({ success: { reason: "too-deep" } })
    }
  })

  test.each([
    "1NaN",
    "NaN1",
    '"a"NaN',
    "[NaN,]",
    "[NaN",
    "NaN NaN",
    "-NaN",
    "+Infinity",
    "[Nan]",
    "Infinit",
    "{NaN:1}",
    '[NaN,"a',
    "[NaN,'a']",
    "[NaN,1.]",
  ])("%s is refused", (text) => {
    expect(Result.flip(parseJson(text))).toMatchObject({ success: { reason: "malformed" } })
  })
})

describe("writing", () => {
  test("plain values as JSON.stringify has them", () => {
    for (const value of [null, true, "é\ud83d", [1, [2]], { a: { b: undefined } }, [undefined, 1], 1e21, 5e-324, ""]) {
      expect(written(value)).toBe(JSON.stringify(value))
    }
    expect(written(undefined)).toBe("null")
  })

  test("numbers that JSON.stringify would lose", () => {
    expect(written([Number.NaN, Number.NEGATIVE_INFINITY, -0, 2 ** 53, 1e20])).toBe(
      "[NaN,-Infinity,-0.0,9.007199254740992e+15,1e+20]",
    )
    expect(written({ a: 2n ** 80n, b: undefined })).toBe('{"a":1208925819614629174706176}')
  })

  test("dates, maps, sets, bytes and what knows its own JSON", () => {
    expect(written(new Date(0))).toBe('{"__type__":"datetime","__value__":"1970-01-01T00:00:00+00:00"}')
    expect(written(new ExactDate(0, "1970-01-01T00:00:00.000000999Z"))).toContain('"1970-01-01T00:00:00.000000+00:00"')
    expect(
      written(
        new Map<unknown, unknown>([
          [1, "a"],
          [true, "b"],
          [null, "c"],
          ["x", new Set([1n])],
        ]),
      ),
    ).toBe('{"1":"a","true":"b","null":"c","x":[1]}')
    expect(
      written([new Uint8Array([1, 2]), new Uint8Array([9, 1, 2]).subarray(1), new Uint16Array([0x0201]).buffer]),
    ).toBe(`[${Array(3).fill('{"__type__":"base64","__value__":"AQI="}').join(",")}]`)
    expect(written([new URL("http://a/"), { toJSON: () => ({ n: 1n }) }])).toBe('["http://a/",{"n":1}]')
    expect(written(new Map([[1n, new Exact("uuid", "815ea983-9f68-4659-a8ca-24f41288d0d5")]]))).toBe(
      '{"1":{"__type__":"uuid","__value__":{"hex":"815ea9839f684659a8ca24f41288d0d5"}}}',
    )
  })

  test("holes in lists are null", () => {
    const holes: Array<unknown> = [1n]
    holes[2] = 3
    expect(written(holes)).toBe("[1,null,3]")
  })

  test("a date that was changed says what it is now", () => {
    const date = new ExactDate(0, "1970-01-01T02:00:00.000001+02:00")
    expect(written(date)).toContain("1970-01-01T02:00:00.000001+02:00")
    date.setTime(1000)
    expect(written(date)).toContain("1970-01-01T00:00:01+00:00")
  })

  test("keys that are lists fail, naming the place", () => {
    expect(Result.flip(renderJson({ a: new Map([[[], 1]]) }))).toMatchObject({
      success: { reason: "unserialisable", message: expect.stringContaining(".a has a key") },
    })
  })

  test("what has nothing of its own to send is refused, also by the other formats", () => {
    for (const codec of [jsonCodec, msgpackCodec, yamlCodec]) {
      for (const value of [new Error("bad"), Promise.resolve(1), /x/, new WeakMap()]) {
        expect(Result.flip(codec.encode({ a: [value] })), codec.contentType).toMatchObject({
          success: { reason: "unserialisable", message: expect.stringContaining(".a[0] is a") },
        })
      }
    }
  })

  test("every value reads back", () => {
    fc.assert(fc.property(anyValue, (value) => void expect(canonical(read(written(value)))).toEqual(canonical(value))))
  })
})
