import { Result } from "effect"
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { newTask, parseTask, renderCompact } from "../../../../runtime/protocol/headers.ts"
import { parseTraceparent, tracestateBeside } from "../../../../runtime/protocol/trace-context.ts"

const TRACE = "0af7651916cd43dd8448eb211c80319c"
const SPAN = "b7ad6b7169203331"
const PARENT = `00-${TRACE}-${SPAN}-01`

const kept = (tracestate: unknown): string | null => tracestateBeside(PARENT, tracestate)

describe("traceparent", () => {
  test.each([
    [PARENT, { traceId: TRACE, spanId: SPAN, flags: 1 }],
    [`00-${TRACE}-${SPAN}-ff`, { traceId: TRACE, spanId: SPAN, flags: 255 }],
    [`cc-${TRACE}-${SPAN}-01-what-the-future-will-be`, { traceId: TRACE, spanId: SPAN, flags: 1 }],
    [null, undefined],
    ["", undefined],
    [`ff-${TRACE}-${SPAN}-01`, undefined],
    [`00-${TRACE.toUpperCase()}-${SPAN}-01`, undefined],
    [`00-${"0".repeat(32)}-${SPAN}-01`, undefined],
    [`00-${TRACE}-${"0".repeat(16)}-01`, undefined],
    [`00-${TRACE}-${SPAN}-1`, undefined],
    [` ${PARENT}`, undefined],
  ])("%s", (text, expected) => {
    expect(parseTraceparent(text)).toEqual(expected)
  })
})

describe("tracestate", () => {
  const members = (count: number, value = "1") => Array.from({ length: count }, (_, at) => `k${at}=${value}`).join(",")

  test.each<readonly [what: string, given: unknown, expected: string | null]>([
    ["one", "rojo=00f067aa0ba902b7", "rojo=00f067aa0ba902b7"],
    ["several, in their order", "b=2,a=1", "b=2,a=1"],
    ["of a tenant", "0fw529a3039@dt=FfffX", "0fw529a3039@dt=FfffX"],
    ["all characters of a key", "a0_-*/=1", "a0_-*/=1"],
    ["spaces in a value", "a=1 2", "a=1 2"],
    ["white space around, and empty members", " a=1 ,\t,, b=2\t", "a=1,b=2"],
    ["a key twice: the first, which is the latest", "a=1,b=2,a=3", "a=1,b=2"],
    ["32", members(32), members(32)],
    ["a long key and a long value", `${"k".repeat(100)}=${"v".repeat(256)}`, `${"k".repeat(100)}=${"v".repeat(256)}`],
    ["nothing", "", null],
    ["commas", ",,,", null],
    ["no text", 7, null],
    ["no value", "a=", null],
    ["no key", "=1", null],
    ["no equals sign", "a=1,b", null],
    ["two equals signs", "a=1=2", null],
    ["upper case", "A=1", null],
    ["a key that begins with a digit", "1a=1", null],
    ["two tenants", "a@b@c=1", null],
    ["a system that is too long", `a@${"s".repeat(15)}=1`, null],
    ["a key that is too long", `${"k".repeat(257)}=1`, null],
    ["a value that is too long", `a=${"v".repeat(257)}`, null],
    ["a value that is no ASCII", "a=ü", null],
    ["a control character", "a=1\u0001", null],
    ["33", members(33), null],
    ["one that is hostile", `a=${"1".repeat(1_000_000)}`, null],
  ])("%s", (_what, given, expected) => {
    expect(kept(given)).toBe(expected)
  })

  test("more than 512 characters lose the long members first, then the last", () => {
    const long = `long=${"x".repeat(130)}`
    const many = (from: number, to: number) =>
      Array.from({ length: to - from }, (_, at) => `k${from + at}=${"v".repeat(94)}`).join(",")
    expect(kept(`${long},${many(0, 4)}`)).toBe(many(0, 4))
    expect(kept(`${many(0, 3)},${long}`)).toBe(`${many(0, 3)},${long}`)
    expect(kept(`${many(0, 8)},${long}`)).toBe(many(0, 5))
  })

  test("is nothing without a traceparent that is one", () => {
    for (const traceparent of [null, undefined, "", "nonsense"]) expect(tracestateBeside(traceparent, "a=1")).toBeNull()
  })

  test("what is kept is kept as it is the next time, and never longer than 512 characters", () => {
    const key = fc.stringMatching(/^[a-z][a-z0-9]{0,20}$/)
    const value = fc.stringMatching(/^[!-+\--<>-~]{1,200}$/)
    const state = fc
      .array(fc.tuple(key, value), { maxLength: 40 })
      .map((each) => each.map((pair) => pair.join("=")).join(","))
    fc.assert(
      fc.property(fc.oneof(state, fc.string()), (given) => {
        const first = kept(given)
        expect(kept(first)).toBe(first)
        expect((first ?? "").length).toBeLessThanOrEqual(512)
      }),
    )
  })

  test("in headers: written beside its traceparent, read back, and never what makes a task unreadable", () => {
    const task = newTask({ task: "t", id: "1", lang: "ts", traceparent: PARENT, tracestate: "a=1" })
    const headers = renderCompact(task)
    expect(headers).toMatchObject({ traceparent: PARENT, tracestate: "a=1" })
    expect(parseTask({ headers })).toEqual(Result.succeed(task))
    for (const tracestate of [7, {}, "A=1", "x".repeat(10_000)]) {
      const read = Result.getOrThrow(parseTask({ headers: { task: "t", id: "1", traceparent: PARENT, tracestate } }))
      expect(read).toMatchObject({ traceparent: PARENT, tracestate: null, custom: {} })
    }
  })
})
