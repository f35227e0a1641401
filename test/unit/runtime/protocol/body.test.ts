import { Result } from "effect"
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import {
  acceptsContentType,
  type Body,
  decodeBody,
  defaultCodecs,
  encodeBody,
  encodeValue,
  NO_EMBED,
  type UndecodableBody,
} from "../../../../runtime/protocol/body.ts"
import type { Signature } from "../../../../runtime/protocol/celery/signature.ts"
import { type Codec, codecsOf, mediaType } from "../../../../runtime/protocol/codec/codec.ts"
import type { Message } from "../../../../runtime/protocol/message.ts"
import { anyValue, jsonish, yamlish } from "./arbitrary.ts"
import { canonical } from "./vectors.ts"

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text)

const message = (body: Uint8Array | string, contentType = "application/json", headers = {}): Message => ({
  headers,
  properties: { content_type: contentType, content_encoding: "" },
  body: typeof body === "string" ? utf8(body) : body,
})

const failure = (...args: Parameters<typeof decodeBody>): UndecodableBody =>
  Result.getOrThrow(Result.flip(decodeBody(...args)))

const FORMATS = ["application/json", "application/x-msgpack", "application/x-yaml"]

describe("shape", () => {
  test("arguments and what follows", () => {
    const signature = { task: "b", args: [1], kwargs: {}, options: {}, subtask_type: null, immutable: false }
    const text = JSON.stringify([[1, "a"], { x: null }, { callbacks: [signature], chain: [], chord: signature }])
    expect(Result.getOrThrow(decodeBody(message(text)))).toEqual({
      args: [1, "a"],
      kwargs: { x: null },
      embed: { callbacks: [signature], errbacks: null, chain: [], chord: signature },
    })
  })

  test.each(["[[],{},null]", "[[],{},{}]", '[[],{},{"callbacks":null,"later":1}]'])(
    "%s has nothing that follows",
    (text) => {
      expect(Result.getOrThrow(decodeBody(message(text)))).toEqual({ args: [], kwargs: {}, embed: NO_EMBED })
    },
  )

  test.each([
    ["[]", /list of 0/],
    ["[[],{}]", /list of 2/],
    ["[[],{},{},{}]", /list of 4/],
    ["[{},{},{}]", /args that are not a list/],
    ['["ab",{},{}]', /args that are not a list/],
    ["[[],[],{}]", /kwargs that are not a map/],
    ["[[],null,{}]", /kwargs that are not a map/],
    ["[[],{},[]]", /embed that is not a map/],
    ["[[],{},7]", /embed that is not a map/],
    ["7", /not \[args, kwargs, embed\]/],
    ["null", /not \[args, kwargs, embed\]/],
    ['"x"', /not \[args, kwargs, embed\]/],
    ['{"task":"t"}', /map without args/],
    ['[[],{},{"callbacks":[{}]}]', /callbacks\[0\]\.task/],
    ['[[],{},{"errbacks":[{"task":"t"},{"task":"t","args":1}]}]', /errbacks\[1\]\.args/],
    ['[[],{},{"chain":[3]}]', /chain\[0\] is not a map/],
    ['[[],{},{"chord":{"task":""}}]', /chord\.task/],
    ["", /not valid JSON/],
    ["[[1, 2], {}, {}", /not valid JSON/],
    ["[[01],{},{}]", /not valid JSON/],
  ])("%s is malformed", (text, why) => {
    const found = failure(message(text))
    expect(found).toMatchObject({ _tag: "UndecodableBody", reason: "malformed", bytes: utf8(text) })
    expect(found.message).toMatch(why)
  })

  test("a map with args is the hybrid form: its chain is nothing", () => {
    const text = '{"args":[1],"callbacks":[{"task":"t"}],"chain":[{"task":"u"}]}'
    const body = Result.getOrThrow(decodeBody(message(text)))
    expect(body).toMatchObject({ args: [1], kwargs: {}, embed: { chain: null, callbacks: [{ task: "t" }] } })
  })
})

describe("content types", () => {
  test.each(["application/data", "application/octet-stream", ""])("%s is one argument of bytes", (type) => {
    const bytes = new Uint8Array([0xff, 0x00, 0xfe])
    expect(Result.getOrThrow(decodeBody(message(bytes, type)))).toEqual({ args: [bytes], kwargs: {}, embed: NO_EMBED })
  })

  test("a message without a content type is one argument of bytes, too", () => {
    const { content_type: _, ...properties } = message("x").properties
    const bare: unknown = { headers: {}, properties, body: utf8("x") }
    const isMessage = (value: unknown): value is Message => value === bare
    if (isMessage(bare)) expect(Result.getOrThrow(decodeBody(bare)).args).toEqual([utf8("x")])
    expect.assertions(1)
  })

  test("parameters and case of a content type do not matter, and other names are known", () => {
    expect(mediaType(" Application/JSON ; charset=utf-8")).toBe("application/json")
    expect(Result.isSuccess(decodeBody(message("[[],{},{}]", "Application/JSON; charset=utf-8")))).toBe(true)
    expect(Result.isSuccess(decodeBody(message("[[],{},{}]", "application/yaml")))).toBe(true)
    expect(Result.isSuccess(decodeBody(message(new Uint8Array([0x93, 0x90, 0x80, 0xc0]), "application/msgpack")))).toBe(
      true,
    )
  })

  test("an unknown type is refused, with its bytes at hand, unless the method accepts it", () => {
    const png = message(new Uint8Array([0x89, 0x50]), "image/png")
    expect(failure(png)).toMatchObject({
      reason: "unsupported-content-type",
      contentType: "image/png",
      bytes: png.body,
    })
    expect(failure(png, { accepts: ["image/jpeg", "text/*"] }).reason).toBe("unsupported-content-type")
    for (const accepts of [["image/png"], ["image/*"], ["*/*"], ["text/plain", "IMAGE/PNG"]]) {
      expect(Result.getOrThrow(decodeBody(png, { accepts })).args).toEqual([png.body])
      expect(acceptsContentType(accepts, "image/png; q=1")).toBe(true)
    }
  })

  test("what is accepted arrives decompressed", () => {
    const encoded = Result.getOrThrow(
      encodeBody(
        { args: [utf8("hello hello hello")], kwargs: {}, embed: NO_EMBED },
        { contentType: "text/plain", compression: "application/x-gzip" },
      ),
    )
    const sent = message(encoded.bytes, encoded.contentType, { compression: encoded.compression })
    expect(Result.getOrThrow(decodeBody(sent, { accepts: ["text/plain"] })).args).toEqual([utf8("hello hello hello")])
    expect(failure(sent).bytes).toEqual(utf8("hello hello hello"))
  })

  test.each([
    "application/x-python-serialize",
    "application/x-python-serialize; x=1",
    "Application/X-Python-Serialize",
  ])("%s is never opened, whatever the method accepts", (type) => {
    expect(failure(message("cos\nsystem\n", type), { accepts: ["*/*", "application/x-python-serialize"] }).reason).toBe(
      "refused-content-type",
    )
    const written = encodeBody({ args: [utf8("x")], kwargs: {}, embed: NO_EMBED }, { contentType: type })
    expect(Result.isFailure(written)).toBe(true)
  })
})

describe("codecs of an application", () => {
  const upper: Codec = {
    contentType: "text/x-upper",
    aliases: ["text/x-loud"],
    contentEncoding: "utf-8",
    decode: (bytes) => Result.succeed(new TextDecoder().decode(bytes).toLowerCase()),
    encode: (value) => Result.succeed(utf8(String(value).toUpperCase())),
  }
  const throwing: Codec = {
    contentType: "text/x-broken",
    contentEncoding: "utf-8",
    decode: () => {
      throw new Error("no")
    },
    encode: () => {
      throw new Error("no")
    },
  }
  const codecs = new Map([...defaultCodecs, ...codecsOf(upper, throwing)])

  test("hold one argument, both ways", () => {
    const body: Body = { args: ["hello"], kwargs: {}, embed: NO_EMBED }
    const encoded = Result.getOrThrow(encodeBody(body, { contentType: "text/x-upper", codecs }))
    expect(encoded).toMatchObject({ bytes: utf8("HELLO"), contentType: "text/x-upper", contentEncoding: "utf-8" })
    expect(Result.getOrThrow(decodeBody(message(encoded.bytes, "text/x-loud"), { codecs }))).toEqual(body)
    expect(Result.isSuccess(decodeBody(message("[[],{},{}]"), { codecs }))).toBe(true)
    const two = encodeBody({ ...body, args: [1, 2] }, { contentType: "text/x-upper", codecs })
    expect(Result.flip(two)).toMatchObject({ success: { reason: "unserialisable" } })
  })

  test("that throw do not throw here", () => {
    expect(failure(message("x", "text/x-broken"), { codecs }).reason).toBe("malformed")
    const body: Body = { args: ["x"], kwargs: {}, embed: NO_EMBED }
    expect(Result.isFailure(encodeBody(body, { contentType: "text/x-broken", codecs }))).toBe(true)
    expect(Result.isFailure(encodeValue("x", "text/x-broken", codecs))).toBe(true)
  })

  test("replace those of the same type", () => {
    const json: Codec = { ...upper, contentType: "application/json", aliases: [] }
    expect(codecsOf(upper, json).get("application/json")).toBe(json)
  })
})

describe("limits", () => {
  test("size is judged before anything is read, also after decompression", () => {
    const long = JSON.stringify([["x".repeat(1000)], {}, null])
    expect(failure(message(long), { maxBytes: 1000 }).reason).toBe("too-large")
    expect(Result.isSuccess(decodeBody(message(long), { maxBytes: long.length }))).toBe(true)
    const bomb = { args: ["x".repeat(100_000)], kwargs: {}, embed: NO_EMBED }
    for (const compression of ["application/x-gzip", "application/x-brotli", "application/zstd"]) {
      const { bytes } = Result.getOrThrow(encodeBody(bomb, { compression }))
      expect(bytes.length).toBeLessThan(1000)
      const found = failure(message(bytes, "application/json", { compression }), { maxBytes: 10_000 })
      expect(found).toMatchObject({ reason: "too-large", bytes })
    }
    expect(failure(message(new Uint8Array(2 ** 20 + 1))).reason).toBe("too-large")
  })

  const nested = (depth: number): unknown => {
    let value: unknown = 1
    for (let at = 0; at < depth; at++) value = at % 2 === 0 ? [value] : { a: value }
    return value
  }

  test.each(FORMATS)("%s: nesting is bounded when read and when written", (contentType) => {
    const body = (depth: number): Body => ({ args: [nested(depth)], kwargs: {}, embed: NO_EMBED })
    const written = encodeBody(body(400), { contentType })
    expect(Result.isSuccess(written)).toBe(true)
    if (Result.isSuccess(written)) {
      expect(Result.isSuccess(decodeBody(message(written.success.bytes, contentType)))).toBe(true)
    }
    expect(Result.flip(encodeBody(body(600), { contentType }))).toMatchObject({ success: { reason: "too-deep" } })
  })

  test.each(FORMATS)("%s: what is written at the bound can be read", (contentType) => {
    for (let depth = 490; depth < 510; depth++) {
      const written = encodeBody({ args: [nested(depth)], kwargs: {}, embed: NO_EMBED }, { contentType })
      if (Result.isFailure(written)) continue
      expect(Result.isSuccess(decodeBody(message(written.success.bytes, contentType))), `${depth} levels`).toBe(true)
    }
  })

  test("bytes are bounded at the same depth in every format", () => {
    const json = (depth: number): Uint8Array => utf8(`[${"[".repeat(depth)}${"]".repeat(depth)},{},null]`)
    const msgpack = (depth: number): Uint8Array => new Uint8Array([0x93, ...Array(depth).fill(0x91), 1, 0x80, 0xc0])
    for (const [contentType, bytes] of [
      ["application/json", json],
      ["application/x-yaml", json],
      ["application/x-msgpack", msgpack],
    ] as const) {
      expect(Result.isSuccess(decodeBody(message(bytes(499), contentType))), contentType).toBe(true)
      expect(failure(message(bytes(510), contentType)).reason, contentType).toBe("too-deep")
    }
    expect(failure(message(`[${"[".repeat(510)}NaN${"]".repeat(510)},{},null]`)).reason).toBe("too-deep")
  })

  test("deep bytes are refused, not followed", () => {
    expect(failure(message("[".repeat(400_000) + "]".repeat(400_000))).reason).toBe("too-deep")
    expect(failure(message(`${"[".repeat(100_000)}NaN`)).reason).toBe("too-deep")
    expect(failure(message(new Uint8Array(400_000).fill(0x91), "application/x-msgpack")).reason).toBe("too-deep")
    expect(failure(message("[".repeat(20_000), "application/x-yaml")).reason).toBe("too-deep")
    expect(failure(message("- ".repeat(20_000), "application/x-yaml")).reason).toBe("too-deep")
  })

  test.each(FORMATS)("%s: a cycle is too deep", (contentType) => {
    const cycle: Array<unknown> = []
    cycle.push(cycle)
    const written = encodeBody({ args: cycle, kwargs: {}, embed: NO_EMBED }, { contentType })
    expect(Result.flip(written)).toMatchObject({ success: { reason: "too-deep" } })
  })
})

describe("keys that reach into prototypes", () => {
  const evil =
    '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"a":[{"__proto__":{"polluted":1}}]}'
  const bodies: ReadonlyArray<readonly [string, Uint8Array]> = [
    ["application/json", utf8(`[[${evil}],${evil},null]`)],
    ["application/json", utf8(`[[${evil},NaN],${evil},null]`)],
    ["application/json", utf8(`[[${evil.replaceAll("__proto__", "\\u005f_proto__")}],${evil},null]`)],
    ["application/x-yaml", utf8(`[[${evil}],${evil},null]`)],
    ["application/x-msgpack", msgpackOf(evil)],
  ]

  test.each(bodies)("%s: are refused by name", (contentType, bytes) => {
    const read = decodeBody(message(bytes, contentType))
    expect(Result.flip(read)).toMatchObject({
      success: { reason: "malformed", message: expect.stringMatching(/the key (__proto__|constructor) is refused/) },
    })
  })

  test.each(["application/json", "application/x-yaml", "application/x-msgpack"])(
    "%s: are not written",
    (contentType) => {
      for (const key of ["__proto__", "constructor"]) {
        const inner: unknown = JSON.parse(`{"a":[{"${key}":{"prototype":1}}]}`)
        const written = encodeBody({ args: [inner], kwargs: {}, embed: NO_EMBED }, { contentType })
        expect(Result.flip(written)).toMatchObject({
          success: { message: expect.stringContaining(`the key ${key} is refused`) },
        })
      }
    },
  )

  test("constructor and prototype as plain data stay", () => {
    const text = '[[],{"constructor":"Ferrari","prototype":{"x":1}},null]'
    expect(Result.getOrThrow(decodeBody(message(text))).kwargs).toEqual({ constructor: "Ferrari", prototype: { x: 1 } })
  })
})

/** `[[evil], evil, null]` in msgpack, by hand: no encoder writes these keys. */
function msgpackOf(json: string): Uint8Array {
  const write = (value: unknown): ReadonlyArray<number> => {
    if (typeof value === "number") return [value]
    if (Array.isArray(value)) return [0x90 + value.length, ...value.flatMap(write)]
    const entries = Object.entries(Object(value))
    const key = (name: string): ReadonlyArray<number> => [0xa0 + name.length, ...utf8(name)]
    return [0x80 + entries.length, ...entries.flatMap(([name, item]) => [...key(name), ...write(item)])]
  }
  const evil = write(JSON.parse(json))
  return new Uint8Array([0x93, 0x91, ...evil, ...evil, 0xc0])
}

describe("round trips", () => {
  const bodies = (values: fc.Arbitrary<unknown>): fc.Arbitrary<Body> =>
    fc.record({
      args: fc.array(values, { maxLength: 4 }),
      kwargs: fc.dictionary(
        fc.string().filter((key) => key !== "__proto__" && key !== "constructor"),
        values,
        {
          maxKeys: 4,
          noNullPrototype: true,
        },
      ),
      embed: fc.constant(NO_EMBED),
    })

  const back = (body: Body, contentType: string, compression?: string): Body => {
    const options = compression === undefined ? { contentType } : { contentType, compression }
    const encoded = Result.getOrThrow(encodeBody(body, options))
    return Result.getOrThrow(decodeBody(message(encoded.bytes, contentType, { compression: encoded.compression })))
  }

  test("JSON", () => {
    fc.assert(
      fc.property(bodies(anyValue), (body) => {
        expect(canonical(back(body, "application/json").args)).toEqual(canonical(body.args))
        expect(canonical(back(body, "application/json").kwargs)).toEqual(canonical(body.kwargs))
      }),
    )
  })

  test("msgpack", () => {
    fc.assert(
      fc.property(bodies(jsonish), (body) => {
        expect(canonical(back(body, "application/x-msgpack").args)).toEqual(canonical(body.args))
        expect(canonical(back(body, "application/x-msgpack").kwargs)).toEqual(canonical(body.kwargs))
      }),
    )
  })

  test("YAML", () => {
    fc.assert(
      fc.property(bodies(yamlish), (body) => {
        expect(canonical(back(body, "application/x-yaml").args)).toEqual(canonical(body.args))
        expect(canonical(back(body, "application/x-yaml").kwargs)).toEqual(canonical(body.kwargs))
      }),
    )
  })

  test.each(["application/x-gzip", "application/x-brotli", "application/zstd"])("compressed by %s", (compression) => {
    fc.assert(
      fc.property(bodies(jsonish), (body) => {
        expect(canonical(back(body, "application/json", compression).kwargs)).toEqual(canonical(body.kwargs))
      }),
      { numRuns: 20 },
    )
  })

  test("signatures", () => {
    const step: Signature = {
      task: "lab.mul",
      args: [2],
      kwargs: { k: new Uint8Array([1]) },
      options: { task_id: "2", link: [{ task: "x" }] },
      subtask_type: null,
      immutable: true,
      chord_size: null,
    }
    const embed = { callbacks: [step], errbacks: [step], chain: [step, step], chord: step }
    for (const contentType of FORMATS) {
      expect(back({ args: [], kwargs: {}, embed }, contentType)).toEqual({ args: [], kwargs: {}, embed })
    }
  })

  test("random bytes of any content type never throw", () => {
    const bytes = fc.oneof(fc.uint8Array({ maxLength: 100 }), fc.string().map(utf8), fc.json().map(utf8))
    const types = fc.constantFrom(...FORMATS, "application/data", "text/plain", "image/png", "")
    const compressions = fc.constantFrom(
      undefined,
      "application/x-gzip",
      "application/x-brotli",
      "application/zstd",
      "lzma",
    )
    fc.assert(
      fc.property(bytes, types, compressions, (body, contentType, compression) => {
        const decoded = decodeBody(message(body, contentType, { compression }), { accepts: ["image/*"] })
        if (Result.isFailure(decoded)) expect(decoded.failure._tag).toBe("UndecodableBody")
      }),
      { numRuns: 1000 },
    )
  })
})

describe("values that cannot be sent", () => {
  const never = (value: unknown): ReadonlyArray<string> =>
    FORMATS.map((contentType) => {
      const written = encodeBody({ args: [{ a: [value] }], kwargs: {}, embed: NO_EMBED }, { contentType })
      return Result.isFailure(written) ? `${written.failure.reason}: ${written.failure.message}` : "sent"
    })

  test.each([
    ["a function", () => 1],
    ["a symbol", Symbol("x")],
    ["an invalid date", new Date(Number.NaN)],
    [
      "what throws when it is read",
      {
        get x(): never {
          throw new Error("no")
        },
      },
    ],
  ])("%s fails as a value", (_name, value) => {
    for (const found of never(value)) expect(found).toMatch(/^unserialisable: /)
  })

  test("the place is named", () => {
    expect(never(() => 1)[0]).toContain("[0].a[0] is a function")
  })
})
