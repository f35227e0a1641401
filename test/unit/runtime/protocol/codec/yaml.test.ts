import { Result } from "effect"
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { parse } from "yaml"
import { MAX_YAML_BYTES, yamlCodec } from "../../../../../runtime/protocol/codec/yaml.ts"
import { Exact, ExactDate } from "../../../../../runtime/protocol/exact.ts"
import { yamlish } from "../arbitrary.ts"
import { canonical } from "../vectors.ts"

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text)
const read = (text: string): unknown => Result.getOrThrow(yamlCodec.decode(utf8(text)))
const refused = (text: string): string => {
  const { reason, message } = Result.getOrThrow(Result.flip(yamlCodec.decode(utf8(text))))
  return `${reason}: ${message}`
}
const written = (value: unknown): string => new TextDecoder().decode(Result.getOrThrow(yamlCodec.encode(value)))

describe("reading", () => {
  // The expected values are those of PyYAML 6.0's safe_load.
  test.each<readonly [string, unknown]>([
    ["y", "y"],
    ["N", "N"],
    ["yes", true],
    ["OFF", false],
    ["~", null],
    ["", null],
    ["08", "08"],
    ["010", 8],
    ["0o17", "0o17"],
    ["0x1f", 31],
    ["-0b11", -3],
    ["1_000", 1000],
    ["1e5", "1e5"],
    ["1.0e5", "1.0e5"],
    ["1.0e+5", 100000],
    [".5", 0.5],
    ["+.5", "+.5"],
    [".", "."],
    ["12:30", 750],
    ["12:30:45", 45045],
    ["190:20:30.15", 685230.15],
    ["-.inf", Number.NEGATIVE_INFINITY],
    [".NaN", Number.NaN],
    ["123456789012345678901", 123456789012345678901n],
    ["'123'", "123"],
    ["2031-1-1", "2031-1-1"],
    ["2031-05-02 17:07:26 sharp", "2031-05-02 17:07:26 sharp"],
    ["2031-05-02 17:07:26z", "2031-05-02 17:07:26z"],
    ["!!str 5", "5"],
    ["!!int '5'", 5],
    ["!!set {1: null, 2: null}", new Set([1, 2])],
    ["!!binary AP8=", new Uint8Array([0, 255])],
    ["!!binary |\n  AP\n  8=\n", new Uint8Array([0, 255])],
    ["{a: 1, a: 2}", { a: 2 }],
    ["a: &x {b: 1}\nc: {<<: *x, d: 2}", { a: { b: 1 }, c: { b: 1, d: 2 } }],
    [
      "{1: a, b: c}",
      new Map<unknown, unknown>([
        [1, "a"],
        ["b", "c"],
      ]),
    ],
    ["2031-12-09", new Exact("date", "2031-12-09")],
  ])("%j", (text, value) => {
    expect(read(text)).toEqual(value)
  })

  test.each([
    ["2031-05-02 17:07:26.167480+00:00", "2031-05-02T17:07:26.167480+00:00"],
    ["2031-05-02T17:07:26Z", "2031-05-02T17:07:26+00:00"],
    ["2031-5-2 7:07:26.5 +3", "2031-05-02T07:07:26.5+03:00"],
    ["2031-05-02 17:07:26", "2031-05-02T17:07:26"],
  ])("the time %s", (text, exact) => {
    const date = read(text)
    expect(date).toBeInstanceOf(ExactDate)
    expect(date).toMatchObject({ text: exact })
  })

  test.each([
    "!!python/object/apply:os.system ['true']",
    "!!python/tuple [1]",
    "!local x",
    "!!binary '***'",
    "2031-13-40",
    "? [1]\n: a",
    "? {a: 1}\n: a",
    "a: 1\n---\nb: 2",
    "[",
    "a: b: c",
    "&a [*b]",
    "\t- x: [",
    `${Array.from({ length: 9 }, (_, at) => `x${at}: &x${at} [${`*x${at - 1},`.repeat(9)}]`)
      .join("\n")
      .replaceAll("*x-1", "1")}`,
    "9".repeat(5000),
  ])("%.50j is malformed", (text) => {
    expect(refused(text)).toMatch(/^malformed: not valid YAML/)
  })

  test("a list that holds itself is too deep", () => {
    expect(refused("&a [*a]")).toMatch(/^too-deep/)
  })

  test("bytes that are not UTF-8 are malformed, and too many are not looked at", () => {
    expect(Result.flip(yamlCodec.decode(new Uint8Array([0xff])))).toMatchObject({ success: { reason: "malformed" } })
    expect(refused("x".repeat(MAX_YAML_BYTES + 1))).toMatch(/^too-large/)
    expect(read("x".repeat(MAX_YAML_BYTES))).toHaveLength(MAX_YAML_BYTES)
  })

  const many = (count: number, each: (at: number) => string): string =>
    Array.from({ length: count }, (_, at) => each(at)).join("")
  const deep = 400
  const harmless = many(400, (at) => `k${at}: {a: 1, b: [1]}\n`)
  const timeOf = (run: () => void): number => {
    const from = performance.now()
    run()
    return performance.now() - from
  }

  // Without the check, parsing each of these took seconds, or hundreds of mebibytes.
  test.each<readonly [string, string, RegExp]>([
    ["thousands of errors", '"'.repeat(MAX_YAML_BYTES), /^malformed/],
    ["closers without openers", "]".repeat(MAX_YAML_BYTES), /^malformed: .*an unmatched ] \(at character 0\)/],
    ["closers of another kind", "[}".repeat(MAX_YAML_BYTES / 2), /^malformed: .*an unmatched } \(at character 1\)/],
    ["openers", "[".repeat(MAX_YAML_BYTES), /^too-deep/],
    ["maps in maps", "{a: ".repeat(MAX_YAML_BYTES / 4), /^too-deep/],
    ["lists on one line", "- ".repeat(MAX_YAML_BYTES / 2), /^too-deep/],
    ["keys on one line", "? ".repeat(MAX_YAML_BYTES / 2), /^too-deep/],
    ["lists that each hold themselves", `${many(deep, (at) => `&a${at} [*a${at},`)}1${"]".repeat(deep)}`, /^too-deep/],
    [
      "lists that hold all those that they lie in",
      `${many(deep, (at) => `&a${at} [`)}${many(deep, (at) => `*a${at},`)}1${"]".repeat(deep)}`,
      /^too-deep/,
    ],
    [
      "aliases of one large list and of those that it lies in",
      `[${many(deep, (at) => `&a${at} [`)}${"1,".repeat(5_000)}${"]".repeat(deep)},${many(deep, (at) => `*a${at},`)}]`,
      /^malformed: .*aliases of more than 100000 values/,
    ],
    [
      "maps merged into one another",
      `a0: &a0 {x: 1}\n${many(300, (at) => `a${at + 1}: &a${at + 1} {<<: *a${at}, k${at}: 1}\n`)}`,
      /^malformed: /,
    ],
  ])("%s are refused in the time of few harmless texts", (_name, text, message) => {
    // A busy machine is as slow with a harmless text of 8 kB. The fastest of a few counts, since it may hold up one of the two.
    let [min, usual] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]
    for (let tries = 0; tries < 4 && !(min < 10 * usual); tries++) {
      usual = Math.min(
        usual,
        timeOf(() => void read(harmless)),
      )
      min = Math.min(
        min,
        timeOf(() => expect(refused(text)).toMatch(message)),
      )
    }
    expect(min / usual).toBeLessThan(10)
  })

  test("signs in words, texts and comments open and close nothing", () => {
    expect(read("a: x]\nb: 'x] }'\nc: |\n  ]\n  }\n# ]\nd: \"]\"\ne: [1, {f: 'g]'}] # }\n")).toEqual({
      a: "x]",
      b: "x] }",
      c: "]\n}\n",
      d: "]",
      e: [1, { f: "g]" }],
    })
    expect(read(`${many(600, (at) => `k${at}: {a: 1, b: [1]}\n`)}`)).toMatchObject({ k599: { a: 1, b: [1] } })
  })

  test("a name that is given twice stands for the last one", () => {
    expect(read("[&a [1, &a 2, *a], *a, &a [3], *a, *a]")).toEqual([[1, 2, 2], 2, [3], [3], [3]])
  })
})

describe("writing", () => {
  test("every value reads back", () => {
    fc.assert(fc.property(yamlish, (value) => void expect(canonical(read(written(value)))).toEqual(canonical(value))))
  })

  test("plain values are YAML to others as well", () => {
    // A key `__proto__` is refused by name before anything is written.
    const plainValue = fc.jsonValue().filter((value) => !JSON.stringify(value).includes('"__proto__"'))
    fc.assert(
      fc.property(plainValue, (value) => {
        const plain: unknown = JSON.parse(JSON.stringify(value))
        expect(parse(written(plain), { version: "1.1" })).toEqual(plain)
      }),
    )
  })

  test("a time whose offset has seconds is written in UTC, since PyYAML reads it as text otherwise", () => {
    const time = (text: string) => new ExactDate(Date.UTC(2031, 4, 2, 16, 5, 23, 123), text)
    expect(written(time("2031-05-02T17:07:26.123456+01:02:03"))).toBe("2031-05-02 16:05:23.123456+00:00\n")
    expect(written(time("2031-05-02T15:03:20-01:02:03.000004"))).toBe("2031-05-02 16:05:23+00:00\n")
    expect(written(time("2031-05-02T17:07:23+01:02"))).toBe("2031-05-02 17:07:23+01:02\n")
  })

  test("words that PyYAML would take for something else are quoted, times and bytes are tagged", () => {
    expect(written({ y: "no", n: [1, 1.5, 1e20, -0, Number.NaN, 2n ** 70n, null] })).toBe(
      '{"y": "no", "n": [1, 1.5, 1.0e+20, -0.0, .nan, 1180591620717411303424, null]}\n',
    )
    expect(written([new Date(0), new Exact("date", "2031-12-09"), new Uint8Array([0, 255]), new Set(["a"])])).toBe(
      '[1970-01-01 00:00:00+00:00, 2031-12-09, !!binary "AP8=", !!set {"a": null}]\n',
    )
    expect(written("\u0085\u2028\ufeff\ud83d🚀")).toBe('"\\u0085\\u2028\\ufeff\\ud83d🚀"\n')
    expect(written({ ["k".repeat(2000)]: 1 })).toMatch(/^\{\? "k+" : 1\}\n$/)
    expect(read(written({ ["k".repeat(2000)]: 1 }))).toEqual({ ["k".repeat(2000)]: 1 })
    // Of a view on a larger buffer only its own bytes are encoded.
    expect(written(new Uint8Array([9, 1, 2, 9]).subarray(1, 3))).toBe('!!binary "AQI="\n')
  })

  test.each([
    ["a decimal", new Exact("decimal", "1")],
    ["a UUID", new Exact("uuid", "815ea983-9f68-4659-a8ca-24f41288d0d5")],
    ["a function", () => 1],
    ["an invalid date", new Date(Number.NaN)],
    ["a key that is a list", new Map([[[], 1]])],
  ])("%s is refused", (_name, value) => {
    expect(Result.flip(yamlCodec.encode([value]))).toMatchObject({ success: { reason: "unserialisable" } })
  })
})
