/** What a submission becomes: whatever is accepted here must be a task that every reader can read. */
import { Result } from "effect"
import { describe, expect, test } from "vitest"
import type { PlanContext } from "../../../../../runtime/client/submitting/plan.ts"
import { generateId } from "../../../../../runtime/id.ts"
import { parseTask } from "../../../../../runtime/protocol/headers.ts"
import { NOW, posting, problem } from "./planned.ts"

const task = (fields: object, context?: Partial<PlanContext>) => {
  const { message } = posting(fields, context)
  // As it comes out at the other end.
  return Result.getOrThrow(parseTask({ headers: JSON.parse(JSON.stringify(message.headers)) }))
}

describe("times", () => {
  test("delay counts from now; eta is a time, UTC where it names no zone", () => {
    expect(posting({ delay: 1.5 }).due).toBe(NOW + 1_500)
    expect(posting({ delay: 0 }).due).toBe(NOW)
    expect(posting({ eta: "2031-06-07T10:00:00" }).due).toBe(Date.UTC(2031, 5, 7, 10))
    expect(posting({ eta: "2031-06-07T10:00:00+02:00" }).due).toBe(Date.UTC(2031, 5, 7, 8))
  })

  test.each([[0], [-1], ["0s"], ["2001-01-01"], ["2031-06-07T08:09:10Z"]])("expires %j has passed", (expires) => {
    expect(problem({ expires })).toEqual({ code: "invalid-input", field: "expires" })
  })

  test("expires may be a duration or a time", () => {
    expect(posting({ expires: 10 }).expires).toBe(NOW + 10_000)
    expect(posting({ expires: "1 hour" }).expires).toBe(NOW + 3_600_000)
    expect(posting({ expires: "2031-06-08" }).expires).toBe(Date.UTC(2031, 5, 8))
  })

  test("what is kept: a negative number is for ever, 0 is not at all, and text is never negative", () => {
    expect(task({ resultTtl: -5, failureTtl: 0 }).own).toMatchObject({ resultTtlMs: -1, failureTtlMs: 0 })
    expect(task({ resultTtl: "1 day" }).own).toMatchObject({ resultTtlMs: 86_400_000 })
    expect(problem({ failureTtl: "-1 day" })).toEqual({ code: "invalid-input", field: "failureTtl" })
  })

  test.each([
    [{ timeLimit: 0 }, "timeLimit.hard"],
    [{ timeLimit: { soft: 0 } }, "timeLimit.soft"],
    [{ timeLimit: { soft: 3, hard: 3 } }, "timeLimit.soft"],
    [{ timeLimit: "101 years" }, "timeLimit.hard"],
    [{ retry: { backoff: { base: -1 } } }, "retry.backoff.base"],
  ])("%j is refused by its field", (fields, field) => {
    expect(problem(fields)).toEqual({ code: "invalid-input", field })
  })

  test("a time limit that is a number or text is the hard one", () => {
    expect(task({ timeLimit: 2 }).timelimit).toEqual({ hard: 2, soft: null })
    expect(task({ timeLimit: { soft: "500 ms" } }).timelimit).toEqual({ hard: null, soft: 0.5 })
  })
})

describe("ids", () => {
  test("the parent is the job that submits, unless the submission says otherwise", () => {
    const parent = { id: "mother", rootId: "eve" }
    expect(task({}, { parent })).toMatchObject({ id: "own", parentId: "mother", rootId: "eve" })
    expect(task({ parentId: "a", rootId: "b" }, { parent })).toMatchObject({ parentId: "a", rootId: "b" })
    expect(task({})).toMatchObject({ parentId: null, rootId: "own" })
  })

  test.each(["parentId", "rootId", "group"])("%s takes any id of 255 bytes, and no more than that", (field) => {
    const longest = `${"é".repeat(127)}x`
    expect(Object.values(task({ [field]: longest }))).toContain(longest)
    for (const wrong of ["é".repeat(128), "\ud800", "a\udc00b"]) {
      expect(problem({ [field]: wrong })).toEqual({ code: "invalid-input", field })
    }
  })
})

describe("hostile values", () => {
  const cycle: Record<string, unknown> = {}
  cycle["self"] = cycle

  test.each([
    [{ headers: { task: "other" } }, "headers.task"],
    [{ headers: { callboard: { run: 7 } } }, "headers.callboard"],
    [{ headers: JSON.parse('{"__proto__": {"task": "other"}}') }, "headers"],
    [{ headers: { cycle } }, "headers"],
    [{ headers: { f: () => 1 } }, "headers"],
    [{ meta: { cycle } }, "meta"],
    [{ meta: { big: 1n } }, "meta"],
    [{ meta: { f: () => 1 } }, "meta"],
    [{ input: cycle }, "input"],
    [{ input: { a: [{ b: () => 1 }] } }, "input.a[0].b"],
    [{ input: new Error("no") }, "input"],
    [{ args: [1, Symbol("x")] }, "args[1]"],
    [{ kwargs: { at: new Date(Number.NaN) } }, "kwargs.at"],
    [{ chain: [{ task: "next", kwargs: { f: () => 1 } }] }, "chain[0].kwargs.f"],
  ])("%o are refused by their field", (fields, field) => {
    expect(problem(fields)).toEqual({ code: "invalid-input", field })
  })

  test("__proto__ in meta and details is refused by name", () => {
    for (const field of ["meta", "details"])
      expect(problem({ [field]: JSON.parse('{"__proto__": {"admin": true}}') })).toMatchObject({
        code: "invalid-input",
      })
  })
})

test("every submission that is accepted is a task that can be read", () => {
  const id = generateId()
  const everything = {
    meth: "run",
    kwargs: { a: 1 },
    queue: "q",
    priority: 9,
    front: true,
    delay: 1,
    expires: 10,
    timeLimit: { soft: 1, hard: 2 },
    retry: { max: 3, backoff: { base: 1, factor: 2, max: 3, jitter: false }, on: ["A"], except: ["B"] },
    parentId: "p",
    rootId: "r",
    group: "g",
    resultTtl: 1,
    failureTtl: -1,
    shadow: "name",
    description: "text",
    meta: { a: [1, null] },
    headers: { x: "y" },
  }
  expect(task(everything, { id })).toMatchObject({
    id,
    meth: "run",
    parentId: "p",
    rootId: "r",
    group: "g",
    shadow: "name",
    eta: NOW + 1_000,
    expires: NOW + 10_000,
    timelimit: { soft: 1, hard: 2 },
    custom: { x: "y" },
    own: {
      front: true,
      submittedAt: NOW,
      meta: { a: [1, null] },
      retry: { max: 3, baseMs: 1_000, factor: 2, maxMs: 3_000, jitter: false, on: ["A"], except: ["B"] },
    },
  })
})
