/** What the ends of members mean for the body of their chord. Pure. */
import { Result } from "effect"
import { describe, expect, test } from "vitest"
import { decodeBody, encodeBody, NO_EMBED } from "../../../../runtime/protocol/body.ts"
import {
  type ChordPart,
  decodePart,
  encodePart,
  handOverOf,
  isComplete,
  MAX_RESULTS,
  MEMBERS_PER_PART,
  type MemberEnd,
  memberEndOf,
  memberOutcomeOf,
  partsOf,
  reopened,
  withOutcomes,
  withResults,
} from "../../../../runtime/protocol/chord.ts"
import type { State } from "../../../../runtime/protocol/state.ts"

const members = (count: number) => Array.from({ length: count }, (_, at) => [`m${at}`])
const outcome = (at: number, end: MemberEnd) => ({ of: "body", at, end })
const done = (result: unknown = null): MemberEnd => ({ state: "succeeded", result })
const only = (parts: ReadonlyArray<ChordPart>): ChordPart => {
  const [part] = parts
  if (part === undefined) throw new Error("it has a part")
  return part
}
const ended = (...ends: ReadonlyArray<MemberEnd>): ChordPart => ({
  parts: 1,
  ids: ends.map((_, at) => [`m${at}`]),
  ends,
})

describe("the parts of a chord", () => {
  test.each([
    [1, [1]],
    [MEMBERS_PER_PART, [MEMBERS_PER_PART]],
    [MEMBERS_PER_PART + 1, [MEMBERS_PER_PART, 1]],
    [10_000, Array.from({ length: 10_000 / MEMBERS_PER_PART }, () => MEMBERS_PER_PART)],
  ])("of %i members hold each of them once", (count, sizes) => {
    const parts = partsOf(members(count))
    expect(parts.map(({ ids }) => ids.length)).toEqual(sizes)
    expect(parts.flatMap(({ ids }) => ids)).toEqual(members(count))
    expect(parts.every((part) => part.parts === sizes.length && !isComplete(part))).toBe(true)
  })

  test("survive the store; other bytes are no part", () => {
    const part = ended(done({ a: 1 }), { state: "failed" })
    expect(decodePart(encodePart(part))).toEqual(part)
    for (const text of [
      "",
      "null",
      "[]",
      "{}",
      '{"parts":1,"ids":[["a"]],"ends":[]}',
      '{"parts":"1","ids":[],"ends":[]}',
    ])
      expect(decodePart(new TextEncoder().encode(text))).toBeUndefined()
  })
})

describe("a part with one more end", () => {
  test("has it once, however often it is noted", () => {
    const part = only(partsOf(members(2)))
    const once = withOutcomes(part, [outcome(1, done(7))])
    expect(once?.ends).toEqual([null, done(7)])
    expect(once && withOutcomes(once, [outcome(1, done(7)), outcome(1, done(8))])).toBeUndefined()
    expect(once && isComplete(once)).toBe(false)
    const both = once && withOutcomes(once, [outcome(0, { state: "failed" })])
    expect(both && isComplete(both)).toBe(true)
  })

  test.each([
    ["a failure, then a success: the member was run again", [{ state: "failed" }, done(1)], done(1)],
    ["a success, then whatever its record becomes", [done(1), { state: "gone" }, { state: "failed" }], done(1)],
    ["a failure, then another one", [{ state: "failed" }, { state: "cancelled" }], { state: "cancelled" }],
  ] as const)("%s", (_, ends, wanted) => {
    const last = ends.reduce<ChordPart>(
      (part, end) => withOutcomes(part, [outcome(0, end)]) ?? part,
      only(partsOf(members(1))),
    )
    expect(last.ends).toEqual([wanted])
  })

  test("of a place that it does not have is the same", () => {
    expect(withOutcomes(only(partsOf(members(2))), [outcome(2, done())])).toBeUndefined()
  })

  test("keeps no more results than a body may get", () => {
    const large = "x".repeat(MAX_RESULTS - 10)
    const part = withOutcomes(only(partsOf(members(3))), [
      outcome(0, done(large)),
      outcome(1, done("123456789")),
      outcome(2, done(1)),
    ])
    expect(part?.ends).toEqual([done(large), { state: "succeeded", large: true }, done(1)])
    // Three bytes for each character.
    const wide = withOutcomes(only(partsOf(members(1))), [outcome(0, done("漢".repeat(MAX_RESULTS / 2)))])
    expect(wide?.ends).toEqual([{ state: "succeeded", large: true }])
  })

  test("is opened again for members that have not succeeded", () => {
    const part = ended(done(1), { state: "failed" }, { state: "gone" })
    expect(reopened(part)?.ends).toEqual([done(1), null, null])
    expect(reopened(ended(done(1)))).toBeUndefined()
    expect(reopened(only(partsOf(members(1))))).toBeUndefined()
  })
})

describe("the record of a member", () => {
  const member = { of: "body", at: 3 }
  test.each<[State, MemberEnd["state"] | undefined, MemberEnd["state"] | undefined]>([
    ["deferred", undefined, undefined],
    ["scheduled", undefined, undefined],
    ["queued", undefined, undefined],
    ["started", undefined, undefined],
    ["succeeded", "succeeded", undefined],
    ["failed", "failed", "failed"],
    ["cancelled", "cancelled", "cancelled"],
    ["expired", "expired", "expired"],
  ])("%s", (state, alone, withMore) => {
    expect(memberOutcomeOf({ state, member })?.end.state).toBe(alone)
    expect(memberOutcomeOf({ state, member: { ...member, more: true } })?.end.state).toBe(withMore)
    expect(memberOutcomeOf({ state })).toBeUndefined()
  })

  test.each<[string, Record<string, State>, boolean, MemberEnd["state"] | undefined]>([
    ["nothing is known yet", {}, false, undefined],
    ["nothing is known for long", {}, true, "gone"],
    ["the first link runs", { a: "started" }, true, undefined],
    ["the next link is about to come", { a: "succeeded" }, false, undefined],
    ["the next link has not come for long", { a: "succeeded" }, true, "gone"],
    ["a link has failed", { a: "succeeded", b: "failed" }, false, "failed"],
    ["the last link has succeeded", { c: "succeeded" }, false, "succeeded"],
    ["the last link runs", { a: "succeeded", b: "succeeded", c: "queued" }, false, undefined],
  ])("of a chain a, b, c: %s", (_, states, isOld, wanted) => {
    const endedAt = isOld ? 1 : 3
    const records = new Map(Object.entries(states).map(([id, state]) => [id, { state, endedAt }]))
    expect(memberEndOf(["a", "b", "c"], records, endedAt, 2)?.state).toBe(wanted)
  })

  test("that was deleted before it ran is gone", () => {
    const deleted = { state: "cancelled", tombstone: true, deleted: true } as const
    expect(memberEndOf(["a"], new Map([["a", deleted]]), 1, 2)).toEqual({ state: "gone" })
  })

  test("that is a tombstone of a success has no result", () => {
    expect(memberEndOf(["a"], new Map([["a", { state: "succeeded", tombstone: true }]]), 1, 2)).toEqual({
      state: "gone",
    })
  })
})

describe("what the body gets", () => {
  test("the results in their order", () => {
    expect(handOverOf([ended(done(1), done()), ended(done([3]))], { size: 3 })).toEqual({
      kind: "results",
      results: [1, null, [3]],
    })
  })

  test("where a member failed: nothing, or references in their places", () => {
    const parts = [ended(done(1), { state: "failed" })]
    expect(handOverOf(parts, { size: 2 })).toEqual({ kind: "failed", members: [{ job: "m1", state: "failed" }] })
    const results = [1, { job: "m1", state: "failed" }]
    expect(handOverOf(parts, { size: 2, allowFailure: true })).toEqual({ kind: "results", results })
  })

  test("where the results are too large, in one part or together: references to all", () => {
    const half = "x".repeat(MAX_RESULTS / 2)
    const references = [
      { job: "m0", state: "succeeded" },
      { job: "m0", state: "succeeded" },
    ]
    expect(handOverOf([ended(done(half)), ended(done(half))], { size: 2 })).toMatchObject({ results: references })
    expect(handOverOf([ended({ state: "succeeded", large: true }), ended(done(1))], { size: 2 })).toMatchObject({
      results: references,
    })
  })

  test.each(["application/json", "application/x-msgpack", "application/x-yaml"])(
    "before its own arguments, as %s",
    (contentType) => {
      const encoded = Result.getOrThrow(
        encodeBody({ args: ["own"], kwargs: { k: 1 }, embed: NO_EMBED }, { contentType }),
      )
      const properties = { content_type: contentType, content_encoding: encoded.contentEncoding }
      const full = Result.getOrThrow(withResults({ headers: {}, properties, body: encoded.bytes }, [1, { a: 2 }]))
      expect(Result.getOrThrow(decodeBody(full))).toEqual({
        args: [[1, { a: 2 }], "own"],
        kwargs: { k: 1 },
        embed: NO_EMBED,
      })
    },
  )

  test("compressed, where they are large: references to ten thousand members are", () => {
    const encoded = Result.getOrThrow(encodeBody({ args: [], kwargs: {}, embed: NO_EMBED }))
    const properties = { content_type: encoded.contentType, content_encoding: encoded.contentEncoding }
    const id = "019a1b2c-3d4e-7f5a-8b9c-0d1e2f3a4b5c"
    const references = Array.from({ length: 10_000 }, (_, at) => ({ job: `${id}-${at}`, state: "succeeded" }))
    const full = Result.getOrThrow(withResults({ headers: {}, properties, body: encoded.bytes }, references))
    expect(full.body.length).toBeLessThan(100_000)
    expect(Result.getOrThrow(decodeBody(full)).args).toEqual([references])
    const small = Result.getOrThrow(withResults({ headers: {}, properties, body: encoded.bytes }, [1]))
    expect(small.headers).toEqual({})
  })

  test("fails where its own arguments cannot be read", () => {
    const properties = { content_type: "application/json", content_encoding: "utf-8" }
    expect(Result.isFailure(withResults({ headers: {}, properties, body: new TextEncoder().encode("{") }, []))).toBe(
      true,
    )
  })
})
