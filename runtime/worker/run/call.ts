/**
 * Calls a handler or a hook, which may return a value, a promise or an Effect, and validates a handler's input and result by
 * their schemas.
 */

import { AsyncLocalStorage } from "node:async_hooks"
import type { StandardSchemaV1 } from "@standard-schema/spec"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import * as Result from "effect/Result"
import type { Job } from "../../actor/job.ts"
import type { JobLog } from "../../actor/step.ts"
import { isPromiseLike } from "../../async/timers.ts"
import { jobError } from "../../jobs/outcome/job-error.ts"
import { firstIssue, type InvalidValue } from "../../options/json-schema.ts"
import type { Trace } from "../../tracing/trace.ts"

/** State of one call of user code. */
export interface Invocation {
  /**
   * The promise that the call returned while it has not settled, even if it is not awaited any more; for an Effect, that of its
   * end once it was interrupted.
   */
  pending: Promise<unknown> | undefined
  /** Whether the call is an Effect that has not ended. */
  isEffect: boolean
  /** The trace of the attempt; absent where attempts are not traced. */
  readonly trace?: Trace | undefined
}

/** How a call ended. It fails with what the user's code threw; a defect is an error of the worker itself. */
export type CallExit = Exit.Exit<unknown, unknown>

/** Calls something in a context of its own, as `AsyncLocalStorage.run` does. */
type Within = <A>(work: () => A) => A

type Resume = (exit: CallExit) => void

/**
 * Calls user code at once, and waits for what it returns. If the wait is interrupted, an Effect is interrupted and its
 * finalizers are awaited for up to a second, and a promise is no longer awaited. What an Effect logs is logged as lines of the
 * job.
 */
export const invoke = (
  run: Invocation,
  job: Pick<Job, "log">,
  call: () => unknown,
  within?: Within,
): Effect.Effect<unknown, unknown> =>
  Effect.callback<unknown, unknown>((resume) => {
    let answer: unknown
    try {
      answer = inContext(run, within, call)
      // An answer that throws when it is touched, such as a revoked proxy, is a failure of the call.
      if (isEffect(answer)) return join(run, fork(run, job, answer, within), resume)
      if (isPromiseLike(answer)) return settle(run, Promise.resolve(answer), resume)
    } catch (thrown) {
      return resume(Exit.fail(thrown))
    }
    return resume(Exit.succeed(answer))
  })

const inContext = <A>({ trace }: Invocation, within: Within | undefined, work: () => A): A => {
  if (within !== undefined) return within(() => (trace === undefined ? work() : trace.within(work)))
  return trace === undefined ? work() : trace.within(work)
}

/** A promise cannot be stopped: if the wait for it ends, it keeps its slot until it settles. */
const settle = (run: Invocation, promise: Promise<unknown>, resume: Resume): void => {
  run.pending = promise
  promise.then(
    (value) => {
      run.pending = undefined
      resume(Exit.succeed(value))
    },
    (thrown: unknown) => {
      run.pending = undefined
      resume(Exit.fail(thrown))
    },
  )
}

/** Waits for the fiber of an Effect. A defect of the Effect is a failure of the call. Returns what interrupts the fiber. */
const join = (run: Invocation, fiber: Fiber.Fiber<unknown, unknown>, resume: Resume): Effect.Effect<void> => {
  run.isEffect = true
  fiber.addObserver((exit) => {
    run.isEffect = false
    resume(Exit.isFailure(exit) && Cause.hasDies(exit.cause) ? Exit.fail(Cause.squash(exit.cause)) : exit)
  })
  return interrupted(run, fiber)
}

/**
 * Longest wait for the finalizers of an Effect that was interrupted. One that has not ended by then, or cannot be interrupted,
 * keeps its slot until it ends, as a promise does.
 */
const FINALIZERS_MS = 1_000

/** Interrupts the fiber of an Effect, and waits for its end. */
const interrupted = (run: Invocation, fiber: Fiber.Fiber<unknown, unknown>): Effect.Effect<void> =>
  Effect.callback((resume) => {
    fiber.interruptUnsafe()
    if (fiber.pollUnsafe() !== undefined) return resume(Effect.void)
    const timer = setTimeout(() => resume(Effect.void), FINALIZERS_MS)
    run.pending = new Promise<void>((resolve) => {
      fiber.addObserver(() => {
        clearTimeout(timer)
        run.pending = undefined
        resolve()
        resume(Effect.void)
      })
    })
  })

/** A call that can be ended by a function. */
export interface EndableCall extends Invocation {
  /** Ends the wait for the call. */
  interrupt: (() => void) | undefined
}

/** The exit of a call, or a promise of it. */
export const invokeNow = (
  call: EndableCall,
  job: Pick<Job, "log">,
  work: () => unknown,
): CallExit | Promise<CallExit> => {
  const fiber = Effect.runFork(invoke(call, job, work))
  const now = fiber.pollUnsafe()
  if (now !== undefined) return now
  call.interrupt = () => fiber.interruptUnsafe()
  return new Promise((resolve) => {
    fiber.addObserver(resolve)
  })
}

/** The job whose hook runs here. */
const hooks = new AsyncLocalStorage<Pick<Job, "log">>()

/** Calls a hook, as {@link invoke} calls. The context tells the job's steps that they are begun in a hook. */
export const invokeHook = (run: Invocation, job: Pick<Job, "log">, call: () => unknown): Effect.Effect<CallExit> =>
  Effect.exit(Effect.interruptible(invoke(run, job, call, (work) => hooks.run(job, work))))

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
