import { Result } from "effect"
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import {
  checkActorName,
  checkMethodName,
  checkQueueName,
  isId,
  MAX_ID_BYTES,
  resolveName,
} from "../../../../runtime/protocol/name.ts"

describe("resolveName", () => {
  const actors = new Set(["text", "lab.tools", "a"])
  const mapping = new Map([
    ["legacy.add", "math.add"],
    ["legacy.all", "lab.tools"],
    ["text", "never.asked"],
    ["one.two", "text"],
  ])
  const target = (task: string, meth: string | null = null) =>
    resolveName(task, meth, (name) => actors.has(name), mapping)

  test.each([
    ["an explicit method wins over everything", "legacy.add", "m", { actor: "legacy.add", meth: "m" }],
    ["a task that is an actor is that actor", "lab.tools", null, { actor: "lab.tools", meth: null }],
    ["an actor comes before the table", "text", null, { actor: "text", meth: null }],
    ["the table comes before the dot", "legacy.add", null, { actor: "math", meth: "add" }],
    ["the table may name an actor with a dot", "legacy.all", null, { actor: "lab.tools", meth: null }],
    ["the table may name an actor without one", "one.two", null, { actor: "text", meth: null }],
    ["else it is split at the last dot", "pkg.mod.fn", null, { actor: "pkg.mod", meth: "fn" }],
    ["no dot: an actor", "unknown", null, { actor: "unknown", meth: null }],
    ["a dot at the end splits nothing", "odd.", null, { actor: "odd.", meth: null }],
    ["a dot at the beginning splits nothing", ".odd", null, { actor: ".odd", meth: null }],
  ])("%s", (_name, task, meth, wanted) => {
    expect(target(task, meth)).toEqual(wanted)
  })

  test("works without a table, for any text", () => {
    fc.assert(
      fc.property(fc.string(), (task) => {
        const { actor, meth } = resolveName(task, null, () => false)
        expect(meth === null ? actor : `${actor}.${meth}`).toBe(task)
      }),
    )
  })
})

const ok = (check: (name: unknown) => Result.Result<string, { readonly message: string }>, name: unknown): boolean =>
  Result.isSuccess(check(name))

describe("names", () => {
  test.each(["then", "toJSON", "constructor", "__proto__"])("no method is called %s", (name) => {
    expect(Result.flip(checkMethodName(name))).toMatchObject({ success: { _tag: "InvalidName", kind: "method" } })
  })

  test("methods are identifiers, perhaps with dashes", () => {
    for (const name of ["run", "count", "_x", "$y", "a-b", "x1", "x".repeat(128)])
      expect(ok(checkMethodName, name), name).toBe(true)
    for (const name of ["", "1x", "a.b", "a b", "-a", "é", "x".repeat(129), 7, null])
      expect(ok(checkMethodName, name)).toBe(false)
  })

  test("actors are words joined by dots", () => {
    for (const name of ["text", "lab.tools", "_a.b-c.1", "x".repeat(128)])
      expect(ok(checkActorName, name), name).toBe(true)
    for (const name of ["", ".a", "a.", "a..b", "1a", "a/b", "a b", "x".repeat(129), {}])
      expect(ok(checkActorName, name)).toBe(false)
  })

  test("queues have no blanks, slashes or wildcards", () => {
    for (const name of ["default", "high.eu:1", "w@host", "0", "x".repeat(128)])
      expect(ok(checkQueueName, name), name).toBe(true)
    for (const name of ["", ".a", "a b", "a/b", "a*", "a>", "é", "x".repeat(129), null])
      expect(ok(checkQueueName, name)).toBe(false)
  })

  test("the message says what to do, and is never long", () => {
    const failure = Result.getOrThrow(Result.flip(checkQueueName("a b".repeat(1000))))
    expect(failure.message).toContain("use at most 128 letters")
    expect(failure.message.length).toBeLessThan(300)
  })
})

describe("ids", () => {
  test("foreign ones are any text that is 1 to 255 bytes of UTF-8", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 300 }), (id) => {
        const bytes = new TextEncoder().encode(id).length
        expect(isId(id)).toBe(id.isWellFormed() && bytes >= 1 && bytes <= MAX_ID_BYTES)
      }),
      { numRuns: 500 },
    )
    for (const id of ["é".repeat(127), "日".repeat(85), "🚀".repeat(63)]) expect(isId(id)).toBe(true)
    for (const id of ["é".repeat(128), "日".repeat(86), "🚀".repeat(64), "\ud83d", ""]) expect(isId(id)).toBe(false)
  })
})
