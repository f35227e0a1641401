/** Mistakes in waits, calls and scopes, made by a handler in the worker, by one in a process of its own, and by an Effect. */
import { actor, forEach, type Job, parameterizedForEach, times } from "callboard"
import * as Effect from "effect/Effect"

type Told = readonly [codeOrName: string, message: string]

const told = async (call: () => Promise<unknown>): Promise<Told> => {
  try {
    return ["over", JSON.stringify((await call()) ?? null)]
  } catch (cause) {
    const { code, name, message } = Object(cause)
    return [code ?? name, message]
  }
}

/** What no handler with types can write. */
const untyped = (value: unknown): never => value as never

const MISTAKES: Readonly<Record<string, (job: Job) => Promise<unknown>>> = {
  "no name": (job) => job.sleep("", 1),
  "a long name": (job) => job.waitFor("é".repeat(65)),
  "a control character": (job) => job.call("a\nb", "child"),
  "no duration": (job) => job.sleep("no duration", "soon"),
  "a negative duration": (job) => job.sleep("negative", -1),
  "no date": (job) => job.sleep("no date", new Date(Number.NaN)),
  "no option": (job) => job.waitFor("no option", untyped({ timout: 1 })),
  "no timeout": (job) => job.waitFor("no timeout", { timeout: "soon" }),
  "no signal": (job) => job.waitFor("no signal", { signal: "" }),
  "in a step": (job) => job.step("outer", () => job.sleep("inner", 0)),
  twice: async (job) => {
    await job.sleep("twice", 0)
    await job.sleep("twice", 0)
  },
  "a time in the past": (job) => job.sleep("past", new Date(0)),
  "a wait without time": (job) => job.waitFor("at once", { timeout: 0 }),
  "an id of a call": (job) => job.call("id", "child", untyped({ id: "mine" })),
  "a result that is not kept": (job) => job.call("ttl", "child", { resultTtl: 1 }),
  "no field of a call": (job) => job.call("field", "child", untyped({ prioritty: 1 })),
  "no queue of a call": (job) => job.call("queue", "child", { queue: "" }),
  "no task of a call": (job) => job.call("task", ""),
  "no name of a scope": (job) => job.scope("", () => 1, { retry: times(1) }),
  "a long name in a scope": (job) =>
    job.scope("long", (inner) => inner.step("x".repeat(125), () => 1), { retry: times(1) }),
  "no name in a scope": (job) => job.scope("inside", (inner) => inner.sleep("", 1), { retry: times(1) }),
  "no body": (job) => job.scope("no body", untyped(1), { retry: times(1) }),
  "no controller": (job) => job.scope("no controller", () => 1, untyped({})),
  "no option of a scope": (job) => job.scope("no option of it", () => 1, untyped({ retry: times(1), retries: 1 })),
  "no decision": (job) =>
    job.scope("no decision", () => Promise.reject(1), { retry: { next: () => 1, onFailure: () => untyped("again") } }),
  "a scope in a step": (job) => job.step("around", () => job.scope("within", () => 1, { retry: times(1) })),
  "a scope twice": async (job) => {
    await job.scope("same", () => 1, { retry: times(1) })
    await job.scope("same", () => 1, { retry: times(1) })
  },
  "no tries": async () => times(0),
  "no option of times": async () => times(1, untyped({ revertAl: true })),
  "no names of errors": async () => times(1, untyped({ on: "TypeError" })),
  "no values": async () => forEach([]),
  "values that are no JSON": async () => forEach([() => 1]),
  "no function of values": async () => parameterizedForEach(untyped([1])),
  "no values at last": (job) => job.scope("none", () => 1, { retry: parameterizedForEach(() => []) }),
}

const makeAll = async (job: Job): Promise<Readonly<Record<string, Told>>> => {
  const all: Record<string, Told> = {}
  for (const [what, call] of Object.entries(MISTAKES)) all[what] = await told(() => call(job))
  return all
}

export const mistakes = actor("mistakes", {
  module: import.meta.url,
  methods: {
    inside: (_input: unknown, job) => makeAll(job),
    apart: { isolation: "process", run: (_input: unknown, job) => makeAll(job) },
    effect: (_input: unknown, job) => Effect.promise(() => makeAll(job)),
    early: { acks: { when: "early" }, run: (_input: unknown, job) => told(() => job.sleep("nap", 0)) },
  },
})

/** Codes or names of the errors, and their messages. */
export const TOLD: Readonly<Record<keyof typeof MISTAKES, readonly [codeOrName: string, message: RegExp]>> = {
  "no name": ["invalid-input", /^name: must be text$/],
  "a long name": ["invalid-input", /^name: must have at most 128 bytes$/],
  "a control character": ["invalid-input", /^name: must be well-formed text without control characters$/],
  "no duration": ["invalid-input", /^time: "soon" is not a duration/],
  "a negative duration": ["invalid-input", /^time: /],
  "no date": ["invalid-input", /^time: must be a valid date$/],
  "no option": ["unknown-field", /timout.*did you mean timeout\?/],
  "no timeout": ["invalid-input", /^timeout: "soon" is not a duration/],
  "no signal": ["invalid-input", /^signal: must be text$/],
  "in a step": ["NestedStep", /inner/],
  twice: ["DuplicateStep", /twice/],
  "a time in the past": ["over", /^null$/],
  "a wait without time": ["over", /^null$/],
  "an id of a call": ["invalid-input", /^id: must be absent/],
  "a result that is not kept": ["invalid-input", /^resultTtl: must be an hour or more/],
  "no field of a call": ["CallboardError", /prioritty.*did you mean priority\?/],
  "no queue of a call": ["CallboardError", /queue/],
  "no task of a call": ["CallboardError", /task/],
  "no name of a scope": ["invalid-input", /^name: must be text$/],
  "a long name in a scope": ["CallboardError", /^name: must have at most 128 bytes$/],
  "no name in a scope": ["CallboardError", /^name: must be text$/],
  "no body": ["invalid-input", /^body: must be a function$/],
  "no controller": ["invalid-input", /^retry: must be a controller, such as times\(3\)$/],
  "no option of a scope": ["unknown-field", /^retries is not an option of scope\(\); it has retry$/],
  "no decision": ["invalid-input", /^retry: onFailure must return "retry", "revert" or "revert-all"$/],
  "a scope in a step": ["NestedStep", /within/],
  "a scope twice": ["DuplicateStep", /same/],
  "no tries": ["invalid-input", /^tries: must be a whole number, 1 or more$/],
  "no option of times": ["unknown-field", /revertAl is not an option of times\(\)/],
  "no names of errors": ["invalid-input", /^on: must be a list/],
  "no values": ["invalid-input", /^values: must be a list with at least one value$/],
  "values that are no JSON": ["invalid-input", /^values: must be JSON$/],
  "no function of values": ["invalid-input", /^values: must be a function that returns a list$/],
  "no values at last": ["invalid-input", /^values: must be a list with at least one value$/],
}
