/** Calls a handler or a hook, whatever it answers with: a value, a promise or an Effect. */
import { Cause, Effect, Exit, Fiber, Logger, References } from "effect"
import type { Job, JobLog } from "../../actor/job.ts"
import { isPromiseLike } from "../../async/promise-like.ts"
import type { Trace } from "../../tracing/context.ts"

/** What a call needs to be ended from outside. */
export interface Invocation {
  /** Ends the wait for its answer: interrupts an Effect, lets go of a promise. */
  interrupt: (() => void) | undefined
  /** A promise that was answered and has not settled, whether or not anybody still waits for it. */
  pending: Promise<unknown> | undefined
  /** Absent: not traced. */
  readonly trace?: Trace | undefined
}

/** Calls now; the exit is what came of it. What an Effect logs is of this job. */
export const invoke = (
  run: Invocation,
  job: Pick<Job, "log">,
  call: () => unknown,
): Effect.Effect<Exit.Exit<unknown, unknown>> => {
  const { trace } = run
  let answer: unknown
  try {
    answer = trace === undefined ? call() : trace.within(call)
  } catch (thrown) {
    return Effect.succeed(Exit.fail(thrown))
  }
  if (isEffect(answer)) {
    const effect = logsTo(() => job.log)(answer)
    const fiber =
      trace === undefined
        ? Effect.runFork(effect)
        : trace.within(() => Effect.runFork(Effect.withParentSpan(effect, trace.parent)))
    run.interrupt = () => fiber.interruptUnsafe()
    return Fiber.await(fiber)
  }
  return isPromiseLike(answer) ? settled(run, Promise.resolve(answer)) : Effect.succeed(Exit.succeed(answer))
}

/** The Effect of a handler or a hook needs nothing from outside; its failures and defects are the attempt's own. */
const isEffect = (answer: unknown): answer is Effect.Effect<unknown, unknown> => Effect.isEffect(answer)

const settled = (run: Invocation, promise: Promise<unknown>): Effect.Effect<Exit.Exit<unknown, unknown>> => {
  run.pending = promise
  return Effect.callback<Exit.Exit<unknown, unknown>>((resume) => {
    const done = (exit: Exit.Exit<unknown, unknown>) => {
      run.pending = undefined
      resume(Effect.succeed(exit))
    }
    promise.then(
      (value) => done(Exit.succeed(value)),
      (thrown: unknown) => done(Exit.fail(thrown)),
    )
    // A promise cannot be stopped, only left: it stays pending, and keeps its slot until it settles.
    run.interrupt = () => resume(Effect.succeed(Exit.interrupt()))
  })
}

/** `log` is asked for when there is something to log. Levels are chosen by the worker's own settings. */
export const logsTo = (log: () => JobLog) => {
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
