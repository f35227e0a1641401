/** A submitter that is another process than the worker checks input by the JSON Schema that the worker publishes. */
import { actor, connect, serve } from "callboard"
import { Schema } from "effect"
import * as v from "valibot"
import { describe, expect, test } from "vitest"
import * as z from "zod"
import { generateId } from "../../../../../runtime/id.ts"
import { keep } from "../../../../support/servers/keep.ts"
import { refusal, WAIT } from "../start.ts"

const silent = {
  "~standard": {
    version: 1 as const,
    vendor: "own",
    validate: (value: unknown) => (value === 1 ? { value } : { issues: [{ message: "is not 1" }] }),
  },
}

const Part = z.object({
  name: z.string(),
  get parts() {
    return z.array(Part).optional()
  },
})

const shop = actor("shop", {
  methods: {
    effect: {
      input: Schema.Struct({ items: Schema.Array(Schema.Struct({ n: Schema.Finite.check(Schema.isGreaterThan(0)) })) }),
      run: () => "ran",
    },
    zod: { input: z.object({ to: z.string().regex(/^a+$/), n: z.int().default(1) }), run: () => "ran" },
    named: { params: ["to"], input: z.object({ to: z.string() }), run: () => "ran" },
    dated: { input: Schema.Struct({ at: Schema.Date, name: Schema.optionalKey(Schema.String) }), run: () => "ran" },
    coerced: { input: z.object({ n: z.coerce.number() }), run: ({ n }) => n },
    prepared: { input: z.array(z.preprocess(Number, z.number()).optional()), run: (all) => all.length },
    caught: { input: z.object({ n: z.record(z.string(), z.number().catch(0)) }), run: () => "ran" },
    valibot: { input: v.object({ n: v.number() }), run: () => "ran" },
    silent: { input: silent, run: () => "ran" },
    recursive: {
      input: Part,
      run: () => "ran",
    },
    free: (_input: unknown) => "ran",
  },
})

const start = async () => {
  const transport = `memory://${generateId()}`
  const service = keep(await serve({ transport, actors: [shop], signals: false, logLevel: "none" }))
  await service.ready()
  return { service, client: keep(await connect(transport)) }
}

describe("input that the published schema refuses", () => {
  test.each([
    ["shop.effect", { input: { items: [{ n: 1 }, { n: -1 }] } }, "input.items.1.n"],
    ["shop.effect", { input: { items: "tea" } }, "input.items"],
    ["shop.effect", {}, "input.items"],
    ["shop.zod", { input: { to: "b" } }, "input.to"],
    ["shop.zod", { input: { to: "a", n: 1.5 } }, "input.n"],
    ["shop.named", { args: [5] }, "input.to"],
  ])("%s with %o is refused before anything is kept", async (task, fields, field) => {
    const { client } = await start()
    await expect(client.submit(task, fields)).rejects.toMatchObject(refusal("invalid-input", field))
    expect((await client.jobs()).jobs).toEqual([])
  })

  test("is left to the worker where the submitter is lenient, or one process with it", async () => {
    const { client, service } = await start()
    for (const job of [
      await client.submit("shop.zod", { input: { to: "b" } }, { lenient: true }),
      await service.client.submit("shop.zod", { input: { to: "b" } }),
    ]) {
      expect(await job.outcome(WAIT)).toMatchObject({
        state: "failed",
        error: { reason: "invalid-input", field: "to" },
      })
    }
  })
})

describe("input that the worker takes", () => {
  test.each([
    ["shop.effect", { input: { items: [{ n: 1 }], more: true } }],
    ["shop.zod", { input: { to: "aa", n: undefined } }],
    ["shop.named", { args: ["tea"] }],
    ["shop.named", { input: { to: "tea" } }],
    // What is no JSON is not what the schema speaks of.
    ["shop.dated", { input: { at: new Date(0) } }],
    // What a schema makes another value of before it checks it, its JSON Schema does not tell.
    ["shop.coerced", { input: { n: "5" } }],
    ["shop.prepared", { input: ["5"] }],
    ["shop.caught", { input: { n: { a: "x" } } }],
    ["shop.recursive", { input: { name: "a", parts: [{ name: "b" }] } }],
    ["shop.valibot", { input: { n: 1 } }],
    ["shop.silent", { input: 1 }],
    ["shop.free", { input: { a: 1 } }],
  ])("%s with %o runs", async (task, fields) => {
    const { client } = await start()
    expect(await (await client.submit(task, fields)).outcome(WAIT)).toMatchObject({ state: "succeeded" })
  })

  test("what no JSON Schema tells is refused by the worker alone", async () => {
    const { client } = await start()
    for (const [task, input] of [
      ["shop.silent", 2],
      ["shop.recursive", { name: 1 }],
      ["shop.coerced", { n: "five" }],
    ] as const) {
      const outcome = await (await client.submit(task, { input })).outcome(WAIT)
      expect(outcome, task).toMatchObject({ state: "failed", error: { reason: "invalid-input" } })
    }
  })
})
