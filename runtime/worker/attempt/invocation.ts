/**
 * Calls a handler or a hook, which may return a value, a promise or an Effect, and validates a handler's input and result by
 * their schemas.
 */

import { AsyncLocalStorage } from "node:async_hooks"
import type { StandardSchemaV1 } from "@standard-schema/spec"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import * as Result from "effect/Result"
import type { Job } from "../../actor/job.ts"
import type { JobLog } from "../../actor/step.ts"
import { runEffect } from "../../async/maybe-effect.ts"
import { isPromiseLike } from "../../async/timers.ts"
import { jobError } from "../../jobs/outcome/job-error.ts"
import { firstIssue, type InvalidValue } from "../../options/json-schema.ts"
import type { Trace } from "../../tracing/context.ts"

/** State of one call, which lets it be ended from outside. */
export interface Invocation {
  /** Ends the wait for the call: an Effect is interrupted, a promise is no longer awaited. */
  interrupt: (() => void) | undefined
  /** The promise that the call returned while it has not settled, even if it is not awaited any more. */
  pending: Promise<unknown> | undefined
  /** The trace of the attempt; absent where attempts are not traced. */
  readonly trace?: Trace | undefined
}

/** Takes the exit of a call. It must not throw. */
export type OnExit = (exit: Exit.Exit<unknown, unknown>) => void

/** Calls something in a context of its own, as `AsyncLocalStorage.run` does. */
type Within = <A>(work: () => A) => A

/**
 * Calls at once, and hands the result or the error to `done`: in the same turn where the call returns neither a promise nor
 * an Effect. What an Effect logs is logged as lines of the job.
 */
export const invoke = (
  run: Invocation,
  job: Pick<Job, "log">,
  call: () => unknown,
  done: OnExit,
  within?: Within,
): void => {
  let now: Exit.Exit<unknown, unknown> | undefined
  let fiber: Fiber.Fiber<unknown, unknown> | undefined
  let promise: Promise<unknown> | undefined
  try {
    const answer = inContext(run, within, call)
    // An answer that throws when it is touched, such as a revoked proxy, is a failure of the call.
    if (isEffect(answer)) fiber = fork(run, job, answer, within)
    else if (isPromiseLike(answer)) promise = Promise.resolve(answer)
    else now = Exit.succeed(answer)
  } catch (thrown) {
    now = Exit.fail(thrown)
  }
  if (promise !== undefined) settle(run, promise, done)
  else if (fiber !== undefined) join(run, fiber, done)
  else if (now !== undefined) done(now)
}

const inContext = <A>({ trace }: Invocation, within: Within | undefined, work: () => A): A => {
  if (within !== undefined) return within(() => (trace === undefined ? work() : trace.within(work)))
  return trace === undefined ? work() : trace.within(work)
}

/** The exit of a call, or a promise of it. */
export const invokeNow = (
  run: Invocation,
  job: Pick<Job, "log">,
  call: () => unknown,
): Exit.Exit<unknown, unknown> | Promise<Exit.Exit<unknown, unknown>> => {
  let now: Exit.Exit<unknown, unknown> | undefined
  let done: OnExit = (exit) => {
    now = exit
  }
  invoke(run, job, call, (exit) => done(exit))
  if (now !== undefined) return now
  return new Promise((resolve) => {
    done = resolve
  })
}

/** Whether a call that has not ended is an Effect. */
export const isEffectCall = ({ interrupt, pending }: Invocation): boolean =>
  interrupt !== undefined && pending === undefined

/** The job whose hook runs here. */
const hooks = new AsyncLocalStorage<Pick<Job, "log">>()

/** Calls a hook, as {@link invoke} calls. The context tells the job's steps that they are begun in a hook. */
export const invokeHook = (run: Invocation, job: Pick<Job, "log">, call: () => unknown, done: OnExit): void =>
  invoke(run, job, call, done, (work) => hooks.run(job, work))

/** Whether the caller runs inside a hook of this job. */
export const isInHookOf = (job: Pick<Job, "log">): boolean => hooks.getStore() === job

/**
 * A type guard for Effects. The Effect of a handler or a hook requires no services; its failures and defects become the
 * attempt's errors.
 */
const isEffect = (answer: unknown): answer is Effect.Effect<unknown, unknown> => Effect.isEffect(answer)

const fork = (
  run: Invocation,
  job: Pick<Job, "log">,
  answer: Effect.Effect<unknown, unknown>,
  within: Within | undefined,
): Fiber.Fiber<unknown, unknown> => {
  const { trace } = run
  const effect = logsTo(() => job.log)(answer)
  return inContext(run, within, () =>
    Effect.runFork(trace === undefined ? effect : Effect.withParentSpan(effect, trace.parent)),
  )
}

/** Waits for the fiber of an Effect. `done` is called in the context of the caller, which a second fiber keeps. */
const join = (run: Invocation, fiber: Fiber.Fiber<unknown, unknown>, done: OnExit): void => {
  run.interrupt = () => fiber.interruptUnsafe()
  runEffect(Fiber.await(fiber), (exit) => done(Exit.isSuccess(exit) ? exit.value : exit))
}

const settle = (run: Invocation, promise: Promise<unknown>, done: OnExit): void => {
  run.pending = promise
  let isOver = false
  const end = (exit: Exit.Exit<unknown, unknown>): void => {
    if (isOver) return
    isOver = true
    done(exit)
  }
  promise.then(
    (value) => {
      run.pending = undefined
      end(Exit.succeed(value))
    },
    (thrown: unknown) => {
      run.pending = undefined
      end(Exit.fail(thrown))
    },
  )
  // A promise cannot be stopped. The wait for it ends, and it keeps its slot until it settles.
  run.interrupt = () => end(Exit.interrupt())
}

/**
 * Sends what an Effect logs to the job's log: annotations and spans become fields, and so does a cause. `log` is called
 * only when there is a line to write. The worker's settings choose the level.
 */
const logsTo = (log: () => JobLog) => {
  const loggers = new Set([
    Logger.make<unknown, void>(({ message, logLevel, cause, fiber, date }) => {
      const parts = Array.isArray(message) ? message : [message]
      const [first, ...rest] = parts
      const spans = fiber.getRef(References.CurrentLogSpans)
      const fields = {
        ...fiber.getRef(References.CurrentLogAnnotations),
        ...Object.fromEntries(spans.map(([label, since]) => [label, `${date.getTime() - since} ms`])),
        ...(rest.length === 0 ? {} : { values: rest }),
        ...(cause.reasons.length === 0 ? {} : { cause: Cause.pretty(cause) }),
      }
      log()[LEVELS[logLevel]](typeof first === "string" ? first : String(first), fields)
    }),
  ])
  return <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    effect.pipe(
      Effect.provideService(Logger.CurrentLoggers, loggers),
      Effect.provideService(References.MinimumLogLevel, "All"),
    )
}

const LEVELS = {
  All: "debug",
  Trace: "debug",
  Debug: "debug",
  Info: "info",
  Warn: "warn",
  Error: "error",
  Fatal: "error",
  None: "debug",
} as const

/** Validates a value with any Standard Schema. The failure names the field. */
export const validate = (
  schema: StandardSchemaV1,
  value: unknown,
): Effect.Effect<Result.Result<unknown, InvalidValue>> => {
  const resultOf = (answer: StandardSchemaV1.Result<unknown>): Result.Result<unknown, InvalidValue> =>
    answer.issues === undefined ? Result.succeed(answer.value) : Result.fail(firstIssue(answer.issues))
  const broken = (thrown: unknown) =>
    Result.fail({ field: "", message: `the schema itself failed: ${jobError(thrown).message}` })
  try {
    const answer = schema["~standard"].validate(value)
    if (!isPromiseLike(answer)) return Effect.succeed(resultOf(answer))
    return Effect.promise(() => Promise.resolve(answer).then(resultOf).catch(broken))
  } catch (thrown) {
    return Effect.succeed(broken(thrown))
  }
}
