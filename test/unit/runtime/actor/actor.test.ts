import { actor, InvalidActor } from "callboard"
import { runActor } from "callboard/testing"
import { Effect, Schema } from "effect"
import * as v from "valibot"
import { describe, expect, test } from "vitest"
import * as z from "zod"

const Sum = { effect: Schema.Struct({ a: Schema.Finite, b: Schema.FiniteFromString }) }

const math = actor("math", {
  queue: "sums",
  start: () => ({ base: 100 }),
  methods: {
    effect: { input: Sum.effect, run: ({ a, b }, job) => job.use.base + a + b },
    standard: { input: Schema.toStandardSchemaV1(Sum.effect), run: ({ a, b }) => Effect.succeed(a + b) },
    zod: {
      input: z.object({ a: z.number(), b: z.string().transform(Number) }),
      run: async ({ a, b }) => a + b,
    },
    valibot: {
      input: v.object({ a: v.number(), b: v.pipe(v.string(), v.transform(Number)) }),
      run: ({ a, b }) => a + b,
    },
    late: {
      input: z
        .object({ a: z.number() })
        .refine(async ({ a }) => a > 0, { path: ["a"], message: "must be more than 0" }),
      run: ({ a }) => a,
    },
    output: { output: Schema.Struct({ at: Schema.DateFromString }), run: (input: { readonly at: string }) => input },
    short: (input: { readonly a: number }, { use }) => use.base + input.a,
  },
})

describe("an actor's method", () => {
  test.each(["effect", "standard", "zod", "valibot"] as const)(
    "takes what its schema takes and gets what it gives: %s",
    async (name) => {
      await using run = await runActor(math)
      expect(await run.call[name]({ a: 1, b: "2" })).toBe(name === "effect" ? 103 : 3)
      const wrong = await run.client.submit(`math.${name}`, { input: { a: "1", b: "2" } })
      expect(await wrong.outcome()).toMatchObject({
        error: { name: "InvalidInput", reason: "invalid-input", field: "a" },
      })
    },
  )

  test("may have a schema that takes its time", async () => {
    await using run = await runActor(math)
    expect(await run.call.late({ a: 1 })).toBe(1)
    await expect(run.call.late({ a: -1 })).rejects.toMatchObject({
      error: { field: "a", message: "a: must be more than 0" },
    })
  })

  test("gives what its output schema gives", async () => {
    await using run = await runActor(math)
    const { at } = await run.call.output({ at: "2026-01-01T00:00:00Z" })
    expect(at satisfies Date).toEqual(new Date("2026-01-01T00:00:00Z"))
    await expect(run.call.output({ at: "never" })).rejects.toMatchObject({
      error: { name: "InvalidResult", field: "at" },
    })
  })

  test("runs on the actor's queue, with the actor's resources", async () => {
    await using run = await runActor(math)
    const job = await run.submit.short({ a: 1 })
    expect(await job.result()).toBe(101)
    expect(await job.find()).toMatchObject({ queue: "sums", task: "math", meth: "short" })
  })
})

test.each([
  [{ max: -1 }, "actor x: restart.max: must be a whole number from 0 to 1000"],
  [{ within: "soon" }, /^actor x: restart\.within: /],
  [{ backoff: { base: -1 } }, /^actor x: restart\.backoff\.base: /],
  [{ backoff: { max: "5 parsecs" } }, /^actor x: restart\.backoff\.max: /],
])("restart %j is refused when the actor is defined", (restart, message) => {
  expect(() => actor("x", { restart, methods: { run: () => 1 } })).toThrow(message)
})

describe("a definition that cannot work", () => {
  const define = (name: string, method: unknown) => () =>
    Reflect.apply(actor, undefined, [name, { methods: { run: method } }])
  const run = () => undefined

  test.each([
    ["a b", run, /name/],
    ["", run, /name/],
    ["x", 1, "method x.run: must be a function, or an object with a function `run`"],
    ["x", {}, "method x.run: must be a function, or an object with a function `run`"],
    ["x", { run, timeLimit: "soon" }, /^method x\.run: timeLimit\.hard: /],
    [
      "x",
      { run, timeLimit: { soft: 2, hard: 1 } },
      "method x.run: timeLimit.soft: must be shorter than timeLimit.hard",
    ],
    ["x", { run, retry: { interval: [] } }, /^method x\.run: retry\.interval\[0\]: /],
    [
      "x",
      { run, retry: { interval: 1, backoff: {} } },
      "method x.run: retry.interval: use either `interval` or `backoff`",
    ],
    ["x", { run, acks: { when: "early" }, onLost: "redeliver" }, /^method x\.run: onLost: cannot be "redeliver" if/],
    ["x", { run, queue: "a b" }, /^method x\.run: queue: /],
  ])("%s %j is refused, saying why", (name, method, message) => {
    expect(define(name, method)).toThrow(InvalidActor)
    expect(define(name, method)).toThrow(message)
  })

  test.each([
    [undefined, "actor x: must be defined by an object with `methods`"],
    [null, "actor x: must be defined by an object with `methods`"],
    [[], "actor x: must be defined by an object with `methods`"],
    [{}, "actor x: methods: is missing: it must be an object with a function for each method"],
  ])("an actor of %j is refused, saying why", (definition, message) => {
    const defining = () => Reflect.apply(actor, undefined, ["x", definition])
    expect(defining).toThrow(InvalidActor)
    expect(defining).toThrow(message)
  })

  test.each(["then", "toJSON", "constructor", "__proto__"])("a method called %s is refused", (name) => {
    const methods = Object.fromEntries([[name, run]])
    expect(() => actor("x", { methods })).toThrow(InvalidActor)
  })

  test("a queue that cannot be", () => {
    expect(() => actor("x", { queue: "a b", methods: { run } })).toThrow(/^actor x: queue: /)
  })

  test("no methods at all", () => {
    expect(() => actor("x", { methods: {} })).toThrow("actor x: methods is empty; an actor needs at least one")
  })
})
