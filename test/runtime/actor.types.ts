import { actor } from "callboard"
import { Effect, Schema } from "effect"
import * as v from "valibot"
import * as z from "zod"

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const same = <A, B>(_proof: Equal<A, B>): void => {}

export const mixed = actor("mixed", {
  start: async () => ({ words: new Set<string>() }),
  methods: {
    zod: {
      input: z.object({ path: z.string(), at: z.string().transform((text) => new Date(text)), n: z.number().default(3) }),
      run: async (input, job) => {
        same<typeof input, { path: string; at: Date; n: number }>(true)
        same<typeof job.use, { words: Set<string> }>(true)
        return new Date()
      },
    },
    valibot: {
      input: v.object({ count: v.optional(v.number(), 1) }),
      run: (input) => input.count,
    },
    effect: {
      input: Schema.toStandardSchemaV1(Schema.Struct({ at: Schema.DateFromString })),
      run: (input, job) => Effect.sync(() => input.at.getTime() + job.use.words.size),
    },
    none: () => "pong",
    own: async (input: { readonly x: number }) => ({ y: input.x }),
    ownLong: { run: async (input: { readonly x: number }) => ({ y: input.x }) },
    job: (_input: unknown, job) => job.use.words.size,
    two: { retry: { max: 3 }, run: (_input, job) => job.use.words.size },
    nothing: () => {},
  },
})
