/** Arbitrary values for property tests, one generator per codec. */
import fc from "fast-check"
import { Exact, ExactDate } from "../../../../runtime/protocol/exact.ts"
import { formatTime } from "../../../../runtime/protocol/time.ts"

const keys = fc
  .string({ unit: "grapheme" })
  .filter((key) => !["__proto__", "constructor", "__type__", "<<", "="].includes(key))

const dates = fc
  .tuple(fc.integer({ min: -62_000_000_000_000, max: 253_000_000_000_000 }), fc.integer({ min: 0, max: 999 }))
  .map(([ms, micros]) => new ExactDate(ms, formatTime(ms, micros)))

const days = fc
  .integer({ min: 0, max: 20_000 })
  .map((day) => new Exact("date", formatTime(day * 86_400_000).slice(0, 10)))

const exacts = fc.oneof(
  days,
  fc.bigInt().map((units) => new Exact("decimal", `${units}.50`)),
  fc.uuid().map((uuid) => new Exact("uuid", uuid)),
  fc.integer({ min: 0, max: 86_399 }).map((at) => new Exact("time", formatTime(at * 1000).slice(11, 19))),
)

const nest = (leaf: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { depthSize: "small", withCrossShrink: true },
      leaf,
      fc.array(tie("value"), { maxLength: 3 }),
      fc.dictionary(keys, tie("value"), { maxKeys: 3, noNullPrototype: true }),
    ),
  })).value

const basic = [fc.constant(null), fc.boolean(), fc.double(), fc.integer(), fc.maxSafeInteger()]

/** 64-bit integers that a number cannot hold. */
const big = fc.bigInt({ min: 2n ** 53n, max: 2n ** 64n - 1n })

/** Values that msgpack can hold. (The library writes −0 as the integer 0.) */
export const jsonish = nest(
  fc.oneof(
    ...basic.map((leaf) => leaf.map((value: unknown) => (value === 0 ? 0 : value))),
    fc.string({ unit: "grapheme" }).filter((text) => text.isWellFormed()),
    big,
    fc.uint8Array(),
    dates,
  ),
)

/** Values that kombu's JSON can hold, lone surrogates included. */
export const anyValue = nest(
  fc.oneof(
    ...basic,
    fc.string({ unit: "binary" }),
    fc.bigInt().map((value) => value * 2n ** 60n + (value < 0n ? -(2n ** 53n) : 2n ** 53n)),
    fc.uint8Array(),
    dates,
    exacts,
  ),
)

/** Values that YAML can hold. */
export const yamlish = nest(
  fc.oneof(...basic, fc.string({ unit: "grapheme" }), fc.string(), big, fc.uint8Array(), dates, days),
)
