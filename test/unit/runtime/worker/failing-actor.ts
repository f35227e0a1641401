/** Actors that fail, in the worker and in processes of their own, which load this file. */
import { actor } from "callboard"
import { Effect, Schema } from "effect"

const Credentials = Schema.toStandardSchemaV1(
  Schema.Struct({ user: Schema.String, password: Schema.String.check(Schema.isMinLength(8)) }),
)

const trap = (): never => {
  throw new Error("trap")
}

/** Values that are no errors, thrown all the same. */
const hostile = (kind: string): unknown => {
  if (kind === "proxy") {
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    return proxy
  }
  if (kind === "tag") return { _tag: "x".repeat(100_000), message: "\u001b[2J\n".repeat(100_000) }
  if (kind === "getters")
    return Object.defineProperties(new Error("x"), { message: { get: trap }, cause: { get: trap } })
  if (kind === "cycle") {
    const error: { self?: unknown } = {}
    error.self = error
    return error
  }
  if (kind === "big") return { big: 1n, [Symbol.toStringTag]: trap }
  return new (class {
    static readonly name = 5
    readonly own = true
  })()
}

const untilSoft = (signal: AbortSignal): Promise<never> =>
  new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }))

/** A log line of an Effect, at a level of its own. */
const said = Effect.logWarning("an effect", { x: 1 }).pipe(
  Effect.annotateLogs({ step: "first" }),
  Effect.withLogSpan("took"),
)

const softly = {
  timeLimit: { soft: 0.1, hard: 10 },
  retry: { max: 1, backoff: { base: 0.01, jitter: false }, on: ["SoftTimeLimitExceeded"] },
}

export const failing = actor("failing", {
  methods: {
    run: {
      redact: ["password"],
      run: (_input: unknown) => {
        throw new RangeError("too far")
      },
    },
    secret: {
      redact: true,
      run: () => {
        throw new Error("hidden")
      },
    },
    named: {
      redact: ["password"],
      params: ["user", "password"],
      run: (_input: unknown) => {
        throw new Error("named")
      },
    },
    checked: { redact: ["password"], input: Credentials, run: () => undefined },
    twice: {
      retry: { max: 1, backoff: { base: 0.01, jitter: false } },
      run: () => {
        throw new Error("twice")
      },
    },
    huge: () => {
      throw new Error("y".repeat(2 ** 20))
    },
    hostile: (kind: string) => {
      throw hostile(kind)
    },
    effect: () =>
      Effect.gen(function* () {
        yield* Effect.sleep(1)
        return yield* Effect.fail(new Error("in an Effect"))
      }),
    soft: { ...softly, run: (_input: unknown, job) => untilSoft(job.signal) },
    wrapped: {
      timeLimit: softly.timeLimit,
      run: (_input: unknown, job) =>
        untilSoft(job.signal).catch((cause: unknown) => Promise.reject(new Error("wrapped", { cause }))),
    },
    external: {
      timeLimit: softly.timeLimit,
      run: (_input: unknown, job) =>
        untilSoft(job.signal).catch(() => Promise.reject(new DOMException("of a database", "TimeoutError"))),
    },
    speak: (_input: unknown, job) => job.log.info("hello", { x: 1 }),
    say: () => said,
  },
})

export const isolated = actor("isolated", {
  module: import.meta.url,
  isolation: "process",
  methods: {
    run: {
      redact: ["password"],
      run: (_input: unknown) => {
        throw new RangeError("too far away")
      },
    },
    checked: { redact: ["password"], input: Credentials, run: () => undefined },
    hostile: (kind: string) => {
      throw hostile(kind)
    },
    soft: { ...softly, run: (_input: unknown, job) => untilSoft(job.signal) },
    speak: (_input: unknown, job) => job.log.info("hello", { x: 1 }),
    say: () => said,
  },
})
