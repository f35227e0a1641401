/** Actors whose handlers call a method of the handle of a job: one inline, one in processes of its own, which load this file. */
import { actor } from "../runtime/actor/actor.ts"
import type { Job } from "../runtime/actor/job.ts"
import { CallboardError } from "../runtime/errors.ts"

export interface Call {
  readonly id: string
  readonly method: string
  /** The argument of the method; empty: it is called without one. */
  readonly argument: ReadonlyArray<unknown>
}

/** What a door says to a call. */
export type Said =
  | { readonly done: unknown }
  | { readonly code: string; readonly message: string; readonly field: string | undefined }

export const saidBy = async (call: () => unknown): Promise<Said> => {
  try {
    return { done: (await call()) ?? null }
  } catch (cause) {
    if (!(cause instanceof CallboardError)) throw cause
    return { code: cause.code, message: cause.message, field: cause.details.field }
  }
}

/** Calls a method by its name, with an argument as code without types may give it. Of events it awaits all. */
export const callOn = async (handle: object, { method, argument }: Omit<Call, "id">): Promise<unknown> => {
  const given = method === "signal" ? argument.flatMap(signalArguments) : argument
  const answer: unknown = await Reflect.apply(Reflect.get(handle, method), handle, given)
  if (method !== "events") return answer
  const events: Array<unknown> = []
  for await (const event of answer as AsyncIterable<unknown>) events.push(event)
  return events
}

/** A signal has several arguments, of which the last one has the options. */
const signalArguments = (argument: unknown): ReadonlyArray<unknown> => {
  const { name, value, ...options } = Object(argument)
  return [name, value, options]
}

const call = (input: Call, job: Job<unknown>) => saidBy(() => callOn(job.job(input.id), input))

/** How often {@link ask} was called in this process: the number of its run. */
let runs = 0

/** Sends a message to the worker as the runtime does in the process of an isolated handler, and resolves with the answer. */
const ask = (message: object): Promise<unknown> =>
  new Promise((resolve) => {
    process.on("message", function take(answer: { readonly question?: unknown }) {
      if (answer.question !== -1) return
      process.off("message", take)
      resolve(answer)
    })
    process.send?.({ kind: "ask", run: ++runs, question: -1, ...message })
  })

export const here = actor("here", {
  methods: {
    call,
    work: () => 1,
    /** Fails with a message that stays the same while the step is kept. */
    fail: async (_input: unknown, job) => {
      throw new Error(`picked ${await job.step("pick", () => Math.random())}`)
    },
  },
})

export const apart = actor("apart", {
  module: import.meta.url,
  isolation: "process",
  methods: { call },
})

export const raw = actor("raw", { module: import.meta.url, isolation: "process", methods: { ask } })
