/** What must and must not compile about a typed handle, and the JSON forms of results. Checked by tsc, never run. */
import {
  type ActorHandle,
  type AnswerTo,
  actor,
  CallboardError,
  type Client,
  connect,
  type JobQuery,
  type JsonForm,
  type Outcome,
} from "callboard"
import { Effect, Schema } from "effect"
import * as v from "valibot"
import * as z from "zod"
import { same } from "../../../support/same.ts"

const shop = actor("shop", {
  start: () => ({ stock: 3 }),
  methods: {
    order: {
      input: z.object({
        item: z.string(),
        at: z.string().transform((text) => new Date(text)),
        amount: z.int().default(1),
      }),
      run: async ({ item, at, amount }) => ({ item, at, amount, note: undefined, again: () => item }),
    },
    find: { input: v.pipe(v.string(), v.minLength(1)), run: (name) => Effect.succeed({ name, price: 3n > 2n }) },
    visit: { input: Schema.Struct({ at: Schema.DateFromString }), run: ({ at }) => at },
    list: {
      input: v.object({ limit: v.optional(v.number(), 10) }),
      output: z.array(z.object({ at: z.date().transform((at) => at.getTime()) })),
      run: ({ limit }) => Array.from({ length: limit }, () => ({ at: new Date() })),
    },
    count: (input: { readonly path: string }, job) => input.path.length + job.use.stock,
    maybe: (input: { readonly path: string } | undefined) => input?.path,
    ping: () => "pong" as const,
    clear: async () => {},
  },
})
type Shop = typeof shop

export const calls = async (client: Client) => {
  const handle = client.actor<Shop>("shop")
  same<typeof handle, ActorHandle<Shop>>(true)

  const order = await handle.order.submit({ item: "pen", at: "2026-01-01" }, { priority: 9, delay: "10s" })
  const ordered = await order.result({ timeout: "1 minute" })
  same<typeof ordered, { readonly item: string; readonly at: Date; readonly amount: number }>(true)
  const outcome = await order.outcome()
  same<typeof outcome, Outcome<typeof ordered>>(true)
  if (outcome.state === "failed") outcome.error.message satisfies string
  for await (const event of order.events()) {
    if (event.type === "progress") event.fraction satisfies number
    else event.state satisfies string
  }
  order.id satisfies string
  order.receipt.durability satisfies string

  await handle.ping.submit(undefined, { after: order.id })
  await handle.count.submit({ path: "a" }, { after: [order.id] })
  await handle.find.submit("pen", { after: { ids: [order.id], allowFailure: true } })

  const many = await handle.count.submitMany([{ path: "a" }, { path: "b" }], { priority: 9 })
  for (const each of many) {
    if (each instanceof CallboardError) each.code satisfies string
    else same<Awaited<ReturnType<typeof each.result>>, number>(true)
  }
  const priced = await handle.find.submitMany(["pen", "ink"])
  const [first] = priced
  if (first !== undefined && !(first instanceof CallboardError)) (await first.result()).name satisfies string
  // @ts-expect-error one input of the wrong type among several
  await handle.count.submitMany([{ path: "a" }, { path: 1 }])
  // @ts-expect-error a single input
  await handle.count.submitMany({ path: "a" })
  // @ts-expect-error one id for several jobs
  await handle.count.submitMany([{ path: "a" }, { path: "b" }], { id: "x" })
  // @ts-expect-error a field that no task has
  await client.submitMany([{ task: "shop.ping", prio: 9 }])

  const found = await handle.find.submit("pen")
  same<Awaited<ReturnType<typeof found.result>>, { readonly name: string; readonly price: boolean }>(true)
  same<Awaited<ReturnType<Awaited<ReturnType<typeof handle.visit.submit>>["result"]>>, Date>(true)
  const list = await (await handle.list.submit()).result()
  same<typeof list, readonly { readonly at: number }[]>(true)
  await handle.list.submit({ limit: 3 })
  const count = await (await handle.count.submit({ path: "a" })).result()
  same<typeof count, number>(true)
  const pong = await (await handle.ping.submit()).result()
  same<typeof pong, "pong">(true)
  const nothing = await (await handle.clear.submit()).result()
  same<typeof nothing, null>(true)

  // @ts-expect-error a field of the wrong type
  await handle.count.submit({ path: 1 })
  // @ts-expect-error a field is missing
  await handle.count.submit({})
  // @ts-expect-error a field too many
  await handle.count.submit({ path: "a", file: "b" })
  // @ts-expect-error the method needs an input
  await handle.count.submit()
  // @ts-expect-error nothing submitted is an empty object to the handler, not undefined
  await handle.maybe.submit()
  // @ts-expect-error what the handler gets is not what the caller sends
  await handle.visit.submit({ at: new Date() })
  // @ts-expect-error a Date where the schema takes text
  await handle.order.submit({ item: "pen", at: new Date() })
  // @ts-expect-error another schema's input
  await handle.find.submit({ name: "pen" })
  // @ts-expect-error no such method
  await handle.cuont.submit({ path: "a" })
  // @ts-expect-error an option that no task has
  await handle.count.submit({ path: "a" }, { prio: 9 })
  // @ts-expect-error jobs to wait for are named by their ids
  await handle.count.submit({ path: "a" }, { after: order })
  // @ts-expect-error whether a failure will do is yes or no
  await handle.count.submit({ path: "a" }, { after: { ids: order.id, allowFailure: "yes" } })
  // @ts-expect-error the handle gives the input
  await handle.count.submit({ path: "a" }, { kwargs: {} })
  // @ts-expect-error the handle gives the method
  await handle.count.submit({ path: "a" }, { meth: "ping" })
  // @ts-expect-error the result is a number
  count satisfies string
  // @ts-expect-error another actor's name
  client.actor<Shop>("shopp")
  // @ts-expect-error not an actor
  client.actor<{ count: () => number }>("shop")
}

// With `typeof import(…)`, as in the documentation: the actor's module and its libraries are not loaded.
export const byImport = async () => {
  await using client = await connect("memory:")
  const job = await client
    .actor<typeof import("../../../../actors/text.ts").default>("text")
    .count.submit({ files: "*.md" })
  ;(await job.result()).words satisfies number
  // @ts-expect-error the input of another method
  await client.actor<typeof import("../../../../actors/text.ts").default>("text").count.submit({ words: "*.md" })
}

// In a handler: submitted jobs are children, with the same types.
export const seller = actor("seller", {
  methods: {
    sell: async (input: { readonly item: string }, job) => {
      const shop = job.actor<Shop>("shop")
      const order = await shop.order.submit({ item: input.item, at: "2026-01-01" }, { delay: 1 })
      same<Awaited<ReturnType<typeof order.result>>["amount"], number>(true)
      const called = await shop.order.call("order again", { item: input.item, at: "2026-01-01" }, { priority: 9 })
      same<(typeof called)["amount"], number>(true)
      // @ts-expect-error the id follows from the caller's
      await shop.order.call("order once more", { item: input.item, at: "2026-01-01" }, { id: "order" })
      // @ts-expect-error a call has a name
      await shop.order.call({ item: input.item, at: "2026-01-01" })
      job.actorName satisfies string
      // @ts-expect-error a field of the wrong type
      await shop.count.submit({ path: 1 })
      // @ts-expect-error another actor's name
      job.actor<Shop>("shopp")
      return order.id
    },
  },
})

// Commands to workers: their arguments, and the value of each reply.
export const commands = async (client: Client) => {
  const [pong] = await client.control("ping")
  same<typeof pong, AnswerTo<"ping"> | undefined>(true)
  pong?.value satisfies "pong" | undefined
  const [grown] = await client.control("pool-grow", { count: 2 }, { workers: ["w1"] })
  grown?.value?.concurrency satisfies number | undefined
  for (const { value = [] } of await client.control("active")) value[0]?.attempt satisfies number | undefined
  await client.control("put-off", { id: "a" })
  await client.control("time-limit", { task: "a.b", hard: "10s" })
  // @ts-expect-error no such command
  await client.control("pnig")
  // @ts-expect-error its argument is missing
  await client.control("pool-grow")
  // @ts-expect-error an argument of the wrong type
  await client.control("pool-grow", { count: "2" })
  // @ts-expect-error another command's argument
  await client.control("autoscale", { count: 2 })
}

// Lists of jobs have a query of their own.
export const lists = async (client: Client) => {
  const query: JobQuery = { states: ["failed"], task: "text.count", dead: true, limit: 10 }
  const page = await client.jobs(query)
  if (page.next !== undefined) await client.cancelAll({ ...query, after: page.next })
  // @ts-expect-error no state
  await client.jobs({ states: ["done"] })
  // @ts-expect-error a field that no query has
  await client.jobs({ state: "failed" })
}

interface Tree {
  readonly name: string
  readonly children: Tree[]
  readonly parent?: Tree | undefined
}
interface JsonTree {
  readonly name: string
  readonly children: readonly JsonTree[]
  readonly parent?: JsonTree
}

same<JsonForm<undefined>, null>(true)
same<JsonForm<void>, null>(true)
same<JsonForm<Date>, Date>(true)
same<JsonForm<bigint>, number | bigint>(true)
same<JsonForm<unknown>, unknown>(true)
// biome-ignore lint/suspicious/noExplicitAny: the point is that it does not spread
same<JsonForm<any>, unknown>(true)
same<JsonForm<never>, never>(true)
same<JsonForm<"a" | 1 | undefined>, "a" | 1 | null>(true)
same<JsonForm<string[]>, readonly string[]>(true)
same<JsonForm<[Date, number?]>, readonly [Date, (number | null)?]>(true)
same<JsonForm<(undefined | number)[]>, readonly (null | number)[]>(true)
same<JsonForm<(() => void)[]>, readonly never[]>(true)
same<JsonForm<Map<string, number>>, Readonly<Record<string, number>>>(true)
same<JsonForm<Set<Date>>, readonly Date[]>(true)
same<JsonForm<Error>, never>(true)
same<JsonForm<Uint8Array>, Uint8Array>(true)
same<
  JsonForm<{ a?: number; b: Date | null; c: undefined; d(): void; [Symbol.iterator]: 1 }>,
  { readonly b: Date | null; readonly a?: number }
>(true)
same<JsonForm<{ a: string | undefined }>, { readonly a?: string }>(true)
same<JsonForm<Record<string, Date>>, { readonly [key: string]: Date }>(true)
same<JsonForm<{ toJSON(): { at: Date } }>, { readonly at: Date }>(true)
same<JsonForm<{ kind: "a"; x: 1 } | { kind: "b" }>, { readonly kind: "a"; readonly x: 1 } | { readonly kind: "b" }>(
  true,
)
export const tree = (json: JsonForm<Tree>): JsonTree => json
