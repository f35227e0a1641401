import fc from "fast-check"
import { expect, test } from "vitest"
import { digestOf } from "../../../../runtime/protocol/digest.ts"

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

test("is the same on every runtime and in every process", () => {
  expect([digestOf(bytes("")), digestOf(bytes('{"n":1}'))]).toMatchInlineSnapshot(`
    [
      "3qi9j5.a2bm1o",
      "ceqri2.qmxc8h",
    ]
  `)
})

test("tells bodies apart that differ in one bit, in their order or in zeros at the end", () => {
  const seen = new Set<string>()
  const body = bytes(JSON.stringify({ to: "Ada", lines: ["tea", "cake"] }))
  for (let bit = 0; bit < body.length * 8; bit++) {
    seen.add(digestOf(body.map((byte, at) => (at === bit >> 3 ? byte ^ (1 << (bit & 7)) : byte))))
  }
  // Two words that differ in their highest bits alone would cancel each other out without a rotation.
  seen.add(digestOf(body.map((byte, at) => (at === 3 || at === 7 ? byte ^ 0x80 : byte))))
  seen.add(digestOf(body.toReversed()))
  for (let zeros = 0; zeros < 5; zeros++) seen.add(digestOf(Uint8Array.of(...body, ...new Uint8Array(zeros))))
  expect(seen.size).toBe(body.length * 8 + 7)
})

test("differs for different bodies", () => {
  const pair = fc.tuple(fc.uint8Array({ maxLength: 64 }), fc.uint8Array({ maxLength: 64 }))
  fc.assert(
    fc.property(pair, ([one, two]) => {
      expect(digestOf(one) === digestOf(two)).toBe(Buffer.compare(one, two) === 0)
    }),
    { numRuns: 2_000 },
  )
})
