/**
 * What must compile about `actor()`, with the types that come out of it, and what must not. Checked by tsc, never run.
 */
import { type ActorHandle, actor, type Job, type RetryPolicy } from "callboard"
import { Context, Effect, Schema } from "effect"
import * as v from "valibot"
import * as z from "zod"
import { same, type TypesOf } from "../../../support/same.ts"

class Database extends Context.Service<Database, { readonly rows: number }>()("Database") {}

const Visit = Schema.Struct({ at: Schema.DateFromString })

// Everything together: schemas of three libraries, short forms, annotations, values, promises and Effects, resources.
export const mixed = actor("mixed", {
  start: async () => ({ words: new Set<string>() }),
  stop: (use) => use.words.clear(),
  methods: {
    zod: {
      input: z.object({ path: z.string(), at: z.string().transform((text) => new Date(text)), n: z.int().default(3) }),
      run: async (input, job) => {
        same<typeof input, { path: string; at: Date; n: number }>(true)
        same<typeof job.use, { words: Set<string> }>(true)
        return input.at
      },
    },
    limited: {
      input: z.object({ tenant: z.string(), at: z.string().transform((text) => new Date(text)) }),
      rate: "10/m",
      limit: {
        rate: 5,
        concurrency: 2,
        key: (input) => {
          same<typeof input, { tenant: string; at: Date }>(true)
          return input.tenant
        },
      },
      run: (input) => {
        same<typeof input, { tenant: string; at: Date }>(true)
        return input.at.getTime()
      },
    },
    limitedWithoutSchema: {
      limit: { concurrency: 2, key: ({ tenant }: { readonly tenant: string }) => tenant },
      run: (input: { readonly tenant: string }) => input.tenant.length,
    },
    valibot: {
      retry: { max: 3, on: ["NetworkError"] },
      timeLimit: { soft: "20 seconds", hard: 30 },
      input: v.object({ count: v.optional(v.number(), 1) }),
      run: (input) => input.count,
    },
    effect: {
      input: Visit,
      run: (input, { use }) => Effect.sync(() => input.at.getTime() + use.words.size),
    },
    standard: {
      input: Schema.toStandardSchemaV1(Visit),
      run: (input) =>
        Effect.gen(function* () {
          yield* Effect.sleep(1)
          return { year: input.at.getUTCFullYear() }
        }),
    },
    both: (input: { readonly wait: boolean }, job) => (input.wait ? Effect.never : job.use.words),
    short: async (input: { readonly x: number }) => ({ y: input.x }),
    shortWithJob: (input: { readonly x: number }, job) => job.use.words.size + input.x,
    shorthand(input: readonly string[], { use }) {
      return use.words.has(input[0] ?? "")
    },
    long: { description: "no schema", run: async (input: { readonly x: number }) => ({ y: input.x }) },
    async: {
      input: z.object({ a: z.string() }),
      async run(input, job) {
        return input.a.length + job.use.words.size
      },
    },
    wider: { input: z.object({ a: z.string() }), run: (input: unknown) => String(input) },
    output: { output: z.object({ x: z.number().transform(String) }), run: (input: string) => ({ x: input.length }) },
    outputOfPromise: { input: z.string(), output: Schema.Number, run: async (input) => input.length },
    ping: () => "pong",
    unknown: (input, job) => {
      same<typeof input, unknown>(true)
      return job.id
    },
    nothing: () => {},
    never: () => {
      throw new Error("always")
    },
  },
})

same<
  TypesOf<typeof mixed>["input"],
  {
    readonly zod: { path: string; at: string; n?: number | undefined }
    readonly limited: { tenant: string; at: string }
    readonly limitedWithoutSchema: { readonly tenant: string }
    readonly valibot: { count?: number | undefined }
    readonly effect: { readonly at: string }
    readonly standard: { readonly at: string }
    readonly both: { readonly wait: boolean }
    readonly short: { readonly x: number }
    readonly shortWithJob: { readonly x: number }
    readonly shorthand: readonly string[]
    readonly long: { readonly x: number }
    readonly async: { a: string }
    readonly wider: { a: string }
    readonly output: string
    readonly outputOfPromise: string
    readonly ping: unknown
    readonly unknown: unknown
    readonly nothing: unknown
    readonly never: unknown
  }
>(true)

same<
  TypesOf<typeof mixed>["result"],
  {
    readonly zod: Date
    readonly limited: number
    readonly limitedWithoutSchema: number
    readonly valibot: number
    readonly effect: number
    readonly standard: { year: number }
    readonly both: Set<string>
    readonly short: { y: number }
    readonly shortWithJob: number
    readonly shorthand: boolean
    readonly long: { y: number }
    readonly async: number
    readonly wider: string
    readonly output: { x: string }
    readonly outputOfPromise: number
    readonly ping: string
    readonly unknown: string
    readonly nothing: void
    readonly never: never
  }
>(true)
same<typeof mixed.name, "mixed">(true)

// A definition in which the type of every handler's job is inferred.
const waiting = actor("waiting", {
  methods: { a: (input: { n: 1 }, job) => job.attempt + input.n, b: (_, job) => job.id },
})
same<TypesOf<typeof waiting>["input"], { readonly a: { n: 1 }; readonly b: unknown }>(true)

// `start` after the methods, and handlers that annotate the type of their job.
const ordered = actor("ordered", {
  methods: {
    inferred: (_input, job) => job.use.rows,
    written: (input: string, job: Job<{ rows: number }>) => job.use.rows + input.length,
    plain: (_input: unknown, job: Job) => job.id,
    checked: { input: z.string(), run: (input, job: Job<{ rows: number }>) => input.repeat(job.use.rows) },
  },
  start: () => ({ rows: 1 }),
})
same<TypesOf<typeof ordered>["result"]["checked"], string>(true)

// Without `start`, `job.use` is undefined.
actor("bare", { methods: { run: (_input, job) => same<typeof job.use, undefined>(true) } })

// The job of a hook is inferred. The result is annotated by the hook, and checked.
const hooked = actor("hooked", {
  start: () => ({ rows: 1 }),
  methods: {
    typed: {
      input: z.object({ a: z.string() }),
      run: async (input, job) => {
        same<typeof job.use, { rows: number }>(true)
        return { length: input.a.length }
      },
      onSuccess: async (result: { length: number }, job) => {
        same<typeof job.use, { rows: number }>(true)
        return result.length + job.use.rows
      },
      onFailure: (error: Error, job) => Effect.sync(() => job.log.warn(error.message)),
      onStopped: (job) => {
        same<typeof job.use, { rows: number }>(true)
      },
    },
    output: {
      output: z.object({ x: z.number().transform(String) }),
      run: (input: string) => ({ x: input.length }),
      onSuccess: ({ x }: { x: string }) => x.length,
    },
    untyped: {
      onSuccess: (result, job) => {
        same<typeof result, unknown>(true)
        return job.state
      },
      onFailure: (error) => same<typeof error, unknown>(true),
      run: (_input, job) => job.use.rows,
    },
  },
})
same<
  TypesOf<typeof hooked>["result"],
  { readonly typed: { length: number }; readonly output: { x: string }; readonly untyped: number }
>(true)
same<
  TypesOf<typeof hooked>["input"],
  { readonly typed: { a: string }; readonly output: string; readonly untyped: unknown }
>(true)

// @ts-expect-error the hook takes another result than the method gives
actor("wrong", { methods: { run: { run: () => 1, onSuccess: (result: string) => result.length } } })

// @ts-expect-error the hook expects another job.use than `start` gives
actor("wrong", { methods: { run: { run: () => 1, onStopped: (job: Job<{ b: 1 }>) => job.use.b } } })

// @ts-expect-error no layer provides the database to the hook
actor("wrong", { methods: { run: { run: () => 1, onFailure: () => Effect.map(Database, ({ rows }) => rows) } } })

// @ts-expect-error no function
actor("wrong", { methods: { run: { run: () => 1, onSuccess: 1 } } })

actor("wrong", {
  methods: {
    input: {
      input: z.object({ path: z.string() }),
      run: (input) => {
        // @ts-expect-error the schema gives no such field
        void input.file
        return input.path
      },
    },
  },
})

// @ts-expect-error the handler takes another input than its schema gives
actor("wrong", { methods: { run: { input: z.object({ a: z.string() }), run: (input: { a: number }) => input.a } } })

// @ts-expect-error the handler expects more than its schema gives
actor("wrong", {
  methods: { run: { input: v.object({ a: v.string() }), run: (input: { a: string; b: 1 }) => input.b } },
})

// @ts-expect-error the result does not fit the output schema
actor("wrong", { methods: { run: { output: z.object({ n: z.number() }), run: async () => ({ n: "one" }) } } })

// @ts-expect-error no layer provides the database
actor("wrong", { methods: { run: () => Effect.map(Database, ({ rows }) => rows) } })

// @ts-expect-error a schema that needs a service that no layer provides
actor("wrong", { methods: { run: { input: {} as Schema.Codec<string, string, Database>, run: () => 1 } } })

// @ts-expect-error a misspelt option
actor("wrong", { methods: { run: { retries: 3, run: () => 1 } } })

// @ts-expect-error misspelt options within an option
actor("wrong", { methods: { run: { timeLimit: { sfot: 1 }, run: () => 1 } } })
// @ts-expect-error
actor("wrong", { methods: { run: { retry: { backof: {} }, run: () => 1 } } })
// @ts-expect-error
actor("wrong", { methods: { run: { retry: { max: 1, backoff: { bse: 1 } }, run: () => 1 } } })
// @ts-expect-error
actor("wrong", { methods: { run: { limit: { rate: 1, concurency: 1 }, run: () => 1 } } })
// @ts-expect-error
actor("wrong", { methods: { run: { schedule: { crno: "* * * * *" }, run: () => 1 } } })
// @ts-expect-error
actor("wrong", { methods: { run: { acks: { wen: "early" }, run: () => 1 } } })
// @ts-expect-error
actor("wrong", { restart: { backof: {} }, methods: { run: () => 1 } })
// @ts-expect-error
actor("wrong", { timeLimit: { sfot: 1 }, methods: { run: () => 1 } })
// @ts-expect-error
actor("wrong", { retry: { max: 1, backoff: { bse: 1 } }, methods: { run: () => 1 } })
// @ts-expect-error
actor("wrong", { onLost: "maybe", methods: { run: () => 1 } })
// @ts-expect-error a method alone has it
actor("wrong", { acks: { when: "early" }, methods: { run: () => 1 } })
// @ts-expect-error
actor("wrong", { restart: { backoff: { bse: 1 } }, methods: { run: () => 1 } })

// The input of a schedule is that of the method, whatever it holds; options may come from elsewhere.
const retry: RetryPolicy | undefined = { max: 1 }
actor("right", {
  methods: {
    run: { schedule: { every: 60, input: { anything: { at: "all" } } }, retry, run: () => 1 },
    fails: { retry: false, timeLimit: "5s", schedule: "@daily", limit: { rate: "1/s", key: "id" }, run: () => 1 },
  },
})

// An option that is undefined is as if absent.
const absent = actor("absent", {
  queue: undefined,
  timeLimit: { soft: undefined, hard: 5 },
  retry: { max: 1, backoff: { base: undefined }, on: undefined },
  resultTtl: undefined,
  failureTtl: undefined,
  onLost: undefined,
  description: undefined,
  isolation: undefined,
  module: undefined,
  start: undefined,
  stop: undefined,
  restart: { max: undefined, within: undefined, backoff: { base: undefined, max: undefined } },
  methods: {
    run: {
      input: undefined,
      output: undefined,
      params: undefined,
      accepts: undefined,
      timeLimit: { soft: undefined, hard: 5 },
      isolation: undefined,
      retry: {
        max: 1,
        backoff: { base: undefined, factor: undefined, max: undefined, jitter: undefined },
        interval: undefined,
        front: undefined,
        on: undefined,
        except: undefined,
      },
      onLost: undefined,
      acks: { when: undefined, onFailure: undefined, onTimeout: undefined },
      queue: undefined,
      priority: undefined,
      rate: undefined,
      resultTtl: undefined,
      failureTtl: undefined,
      redact: undefined,
      schedule: { every: 60, cron: undefined, timeZone: undefined, jitter: undefined, input: undefined },
      description: undefined,
      limit: { rate: 1, concurrency: undefined, key: undefined },
      onSuccess: undefined,
      onFailure: undefined,
      onStopped: undefined,
      run: async (input: { readonly n: number }, job) => {
        same<typeof job.use, undefined>(true)
        await job.step("a", () => 1, {
          retry: { max: 1, interval: undefined, backoff: undefined, on: undefined, except: undefined },
          timeLimit: undefined,
          revert: undefined,
        })
        await job.each("b", [1], () => 1, { key: String, parallel: undefined, retry: undefined })
        // @ts-expect-error a step has no retries before others
        await job.step("c", () => 1, { retry: { max: 1, front: true } })
        return { n: input.n }
      },
    },
  },
})
same<TypesOf<typeof absent>["input"]["run"], { readonly n: number }>(true)
same<TypesOf<typeof absent>["result"]["run"], { n: number }>(true)

// @ts-expect-error an option of the wrong type
actor("wrong", { methods: { run: { retry: { max: "3" }, run: () => 1 } } })

// @ts-expect-error no method at all
actor("wrong", { methods: { run: 1 } })

// @ts-expect-error options without a handler
actor("wrong", { methods: { run: { queue: "high" } } })

// @ts-expect-error no schema
actor("wrong", { methods: { run: { input: { path: "string" }, run: () => 1 } } })

// A handler may return `any`: the caller gets `unknown`.
const loose = actor("loose", {
  methods: {
    a: () => 1,
    b: () => JSON.parse("1"),
    c: async () => JSON.parse("1"),
    d: { input: z.object({ n: z.number() }), run: ({ n }) => JSON.parse(String(n)) },
    e: { output: z.number(), run: () => JSON.parse("1") },
    f: (input: { readonly n: number }, job) => job.meta["text"] ?? JSON.parse(String(input.n)),
    g: {
      run: () => JSON.parse("1"),
      onSuccess: () => JSON.parse("1"),
      onFailure: (error) => JSON.parse(String(error)),
    },
  },
})
same<keyof TypesOf<typeof loose>["result"], "a" | "b" | "c" | "d" | "e" | "f" | "g">(true)
same<Awaited<ReturnType<Awaited<ReturnType<ActorHandle<typeof loose>["b"]["submit"]>>["result"]>>, unknown>(true)

// Code in a handler that does not compile is one error, at its place, and none on the name.
actor("wrong", {
  methods: {
    // @ts-expect-error nothing has this name
    missing: () => nowhere.to.be.found,
    field: (input: { readonly n: number }) => {
      // @ts-expect-error the input has no such field
      return input.m
    },
    effect: () =>
      Effect.gen(function* () {
        // @ts-expect-error nothing has this name
        return yield* nowhere
      }),
    schema: {
      input: z.object({ n: z.number() }),
      run: async (input) => {
        // @ts-expect-error the schema gives no such field
        return input.m.n
      },
    },
  },
})

// @ts-expect-error another job.use than `start` gives
actor("wrong", { start: () => ({ a: 1 }), methods: { run: (_input: unknown, job: Job<{ b: 1 }>) => job.use.b } })

// @ts-expect-error more of job.use than `start` gives
actor("wrong", { start: () => ({ a: 1 }), methods: { run: (_: unknown, job: Job<{ a: number; b: 1 }>) => job.use.b } })

// @ts-expect-error a job.use that nothing gives
actor("wrong", { methods: { run: (_input: unknown, job: Job<{ b: 1 }>) => job.use.b } })

// @ts-expect-error a misspelt option of the actor
actor("wrong", { queues: "high", methods: { run: () => 1 } })
