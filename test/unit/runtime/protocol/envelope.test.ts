import { Result } from "effect"
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { decodeEnvelope, ENVELOPE_OVERHEAD, encodeEnvelope } from "../../../../runtime/protocol/envelope.ts"
import { type Headers, isUndecodable, type Message, type Properties } from "../../../../runtime/protocol/message.ts"

const plain = fc.dictionary(
  fc.string(),
  fc.jsonValue().map((value): unknown => JSON.parse(JSON.stringify(value))),
)
const messages: fc.Arbitrary<Message> = fc.record({
  headers: plain,
  properties: fc
    .tuple(plain, fc.string(), fc.string())
    .map(([rest, content_type, content_encoding]) => ({ ...rest, content_type, content_encoding })),
  body: fc.uint8Array({ maxLength: 1000 }),
})

const sample: Message = {
  headers: { task: "text", id: "ø-🚀-\ud83d", n: null },
  properties: { content_type: "application/json", content_encoding: "utf-8", priority: 9 },
  body: new Uint8Array([0, 255, 1, 254]),
}
const frame = Result.getOrThrow(encodeEnvelope(sample))

const reason = (bytes: Uint8Array): string => {
  const found = decodeEnvelope(bytes)
  if (!isUndecodable(found)) throw new Error("decoded")
  expect(found.raw).toBe(bytes)
  return found.undecodable
}

/** A frame with this head and no body. */
const framed = (head: Uint8Array): Uint8Array => {
  const bytes = new Uint8Array(ENVELOPE_OVERHEAD + head.length)
  bytes[0] = 1
  new DataView(bytes.buffer).setUint32(1, head.length)
  bytes.set(head, ENVELOPE_OVERHEAD)
  return bytes
}

const changed = (at: number, value: number): Uint8Array => {
  const copy = frame.slice()
  copy[at] = value
  return copy
}

describe("envelope", () => {
  test("a message reads back from its frame", () => {
    fc.assert(
      fc.property(messages, (message) => {
        const decoded = decodeEnvelope(Result.getOrThrow(encodeEnvelope(message)))
        expect(JSON.stringify(decoded)).toBe(JSON.stringify(message))
        expect(decoded).toMatchObject({ body: message.body })
      }),
    )
  })

  test("the usual properties take a few bytes and read back; others are written as they are", () => {
    const id = "0190cdef-1234-7abc-8def-0123456789ab"
    const usual = {
      content_type: "application/json",
      content_encoding: "utf-8",
      correlation_id: id,
      delivery_mode: 2,
      priority: 4,
    }
    const lengthOf = (properties: Properties, headers: Headers = { id }): number => {
      const message = { headers, properties, body: new Uint8Array([1, 2, 3]) }
      const frame = Result.getOrThrow(encodeEnvelope(message))
      expect(decodeEnvelope(frame)).toEqual(message)
      return frame.length
    }
    const short = lengthOf(usual)
    expect(short).toBe(ENVELOPE_OVERHEAD + JSON.stringify([{ id }, 4]).length + 3)
    for (const other of [
      { ...usual, content_type: "application/x-msgpack" },
      { ...usual, content_encoding: "binary" },
      { ...usual, correlation_id: "another" },
      { ...usual, delivery_mode: 1 },
      { ...usual, priority: 4.5 },
      { ...usual, reply_to: "queue" },
      {
        content_type: "application/json",
        content_encoding: "utf-8",
        correlation_id: id,
        delivery_mode: 2,
        expiration: "1",
      },
    ]) {
      expect(lengthOf(other)).toBeGreaterThan(short + 50)
    }
    expect(lengthOf(usual, { task: "text" })).toBeGreaterThan(short + 50)
    const priorityAlone = new TextEncoder().encode(JSON.stringify([{ id: 7 }, 4]))
    expect(reason(framed(priorityAlone))).toMatch(/properties lack/)
  })

  test("long and non-Latin headers read back, too", () => {
    for (const size of [10, 4000, 4097, 50_000]) {
      for (const letter of ["a", "é", "日", "🚀"]) {
        const message = { ...sample, headers: { task: letter.repeat(size) } }
        expect(decodeEnvelope(Result.getOrThrow(encodeEnvelope(message)))).toEqual(message)
      }
    }
  })

  test("frames do not share memory with one another or with the body they were made from", () => {
    const body = new Uint8Array([1, 2, 3])
    const first = Result.getOrThrow(encodeEnvelope({ ...sample, body }))
    const copy = first.slice()
    encodeEnvelope({ ...sample, headers: { task: "another" } })
    body.fill(9)
    expect(first).toEqual(copy)
  })

  test("costs few bytes", () => {
    const head = JSON.stringify([sample.headers, sample.properties])
    expect(frame.length).toBe(ENVELOPE_OVERHEAD + new TextEncoder().encode(head).length + sample.body.length)
  })

  test("every truncation and every extension shows", () => {
    for (let length = 0; length < frame.length; length++) {
      expect(reason(frame.slice(0, length))).toMatch(length < ENVELOPE_OVERHEAD ? /too few/ : /truncated/)
    }
    expect(reason(new Uint8Array([...frame, 0]))).toMatch(/too long/)
  })

  test("another version, foreign bytes, lying lengths", () => {
    expect(reason(changed(0, 2))).toMatch(/version/)
    expect(reason(new TextEncoder().encode('{"task": "add", "id": "1"}'))).toMatch(/version/)
    for (const at of [1, 2, 3, 5, 6, 7]) expect(reason(changed(at, 255))).toMatch(/truncated/)
    expect(reason(changed(8, 0))).toMatch(/too long/)
  })

  test("a length moved from head to body shows in the head", () => {
    const copy = frame.slice()
    copy[4] = (copy[4] ?? 0) - 1
    copy[8] = (copy[8] ?? 0) + 1
    expect(reason(copy)).toMatch(/not JSON/)
  })

  test("headers that are not UTF-8", () => {
    expect(reason(changed(ENVELOPE_OVERHEAD + 3, 0xff))).toMatch(/not UTF-8/)
  })

  const withHead = (head: string): Uint8Array => {
    const text = new TextEncoder().encode(head)
    return new Uint8Array([1, 0, 0, 0, text.length, 0, 0, 0, 0, ...text])
  }

  test.each([
    ["[]", /no headers/],
    ["{}", /no headers/],
    ["null", /no headers/],
    ["[{}]", /no headers/],
    ["[{},{},{}]", /no headers/],
    ["[[],{}]", /not a map/],
    ["[null,{}]", /not a map/],
    ['[{},{"content_type":"a"}]', /content_encoding/],
    ['[{},{"content_type":1,"content_encoding":"a"}]', /content_type/],
    ["[{},[]]", /content_type/],
    ["{", /not JSON/],
    ["", /not JSON/],
  ])("head %s", (head, why) => {
    expect(reason(withHead(head))).toMatch(why)
  })

  test("random bytes never throw", () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => void decodeEnvelope(bytes)))
    fc.assert(
      fc.property(fc.nat({ max: frame.length - 1 }), fc.nat({ max: 255 }), (at, value) => {
        void decodeEnvelope(changed(at, value))
      }),
    )
  })

  test("headers that JSON cannot hold fail as a value", () => {
    const cycle: Record<string, unknown> = {}
    cycle.self = cycle
    for (const headers of [{ big: 1n }, cycle]) {
      expect(Result.flip(encodeEnvelope({ ...sample, headers }))).toMatchObject({
        success: { _tag: "InvalidEnvelope" },
      })
    }
  })
})
