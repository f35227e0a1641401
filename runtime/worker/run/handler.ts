/**
 * One attempt, in the process that runs the handler: it calls the handler, checks its result, and calls the method's
 * hooks. Each step is awaited before the next begins, and no further step begins once the run was ended from outside.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type { ErasedMethod } from "../../actor/actor.ts"
import { Ignore, type Job, type JobState, Reject, Retry } from "../../actor/job.ts"
import { jobError, KnownFailure, readable } from "../../jobs/outcome/job-error.ts"
import type { InvalidValue } from "../../options/json-schema.ts"
import { jsonForm } from "../../protocol/codec/json.ts"
import type { StepEngine } from "../../steps/engine.ts"
import { type CallExit, type Invocation, invoke, invokeHook, validate } from "./call.ts"

/** The part of a run that an attempt reads and changes. */
export interface AttemptedRun extends Invocation {
  readonly method: ErasedMethod
  /** Whether other tasks get its result: its callbacks, or the next link of its chain. */
  readonly handsOn: boolean
  /** The run was ended from outside (time limit, cancellation, hand-back), so its outcome is ignored. */
  readonly isOver: boolean
}

/** The job object that a handler gets. The attempt sets its state before it calls a hook. */
export interface AttemptedJob extends Job {
  state: JobState
  /** Whether the handler has returned, or the wait for it has ended. The attempt sets it. */
  hasReturned: boolean
  readonly steps: StepEngine | undefined
  /** Its steps, also where it has begun none. */
  useSteps(): StepEngine
}

/** Calls the handler. It can be interrupted. It fails with what the handler threw. */
export const callHandler = (run: AttemptedRun, input: unknown, job: AttemptedJob): Effect.Effect<unknown, unknown> =>
  invoke(run, job, () => run.method.run(input, job))

/**
 * What follows the handler, by its exit. It succeeds with the JSON form of the checked result; if that has none, with a text
 * that says why. It fails with what the handler threw, with a {@link KnownFailure} for a result that cannot be kept and that
 * other tasks get, or with what a hook threw, which counts as if the handler had thrown it. Most attempts end at once.
 */
export const afterHandler = (run: AttemptedRun, exit: CallExit, job: AttemptedJob): Effect.Effect<unknown, unknown> => {
  job.hasReturned = true
  // A handler that goes on after its attempt may still come to a first step, and stays there.
  const steps = run.pending === undefined ? job.steps : job.useSteps()
  return steps === undefined ? ended(run, exit, job) : afterSteps(run, exit, job, steps)
}

/** The steps that the handler has begun end first. Of an attempt that was stopped, or that undid its steps, nothing else counts. */
const afterSteps = Effect.fnUntraced(function* (
  run: AttemptedRun,
  answered: CallExit,
  job: AttemptedJob,
  steps: StepEngine,
): Effect.fn.Return<unknown, unknown> {
  const exit = yield* Effect.promise(() => steps.finish(answered))
  run.pending = steps.pending(run.pending)
  return yield* steps.isStopped ? exit : ended(run, exit, job)
})

const ended = (run: AttemptedRun, exit: CallExit, job: AttemptedJob): Effect.Effect<unknown, unknown> =>
  Exit.isFailure(exit) ? failed(run, exit.cause, job) : returned(run, exit.value, job)

/** The handler has returned a value, which is checked. */
const returned = (run: AttemptedRun, value: unknown, job: AttemptedJob): Effect.Effect<unknown, unknown> => {
  const { output } = run.method
  if (output === undefined) return kept(run, value, job)
  const checking = validate(output, value)
  // A schema may be asynchronous, and wait for ever.
  return Effect.flatMapEager(Exit.isExit(checking) ? checking : Effect.interruptible(checking), (checked) =>
    Result.isSuccess(checked)
      ? kept(run, checked.success, job)
      : failed(run, Cause.fail(invalidResult(checked.failure)), job),
  )
}

/** The result is as its method promises: keeps its JSON form, and calls `onSuccess`. */
const kept = (run: AttemptedRun, value: unknown, job: AttemptedJob): Effect.Effect<unknown, unknown> => {
  // The JSON form is made before `onSuccess` runs, because the hook may change the value that it gets.
  const form = jsonForm(value, "result")
  if (Result.isFailure(form)) {
    // A placeholder is enough for people who look at the job, but not for a follow-up task that computes with the
    // result.
    if (run.handsOn) return failed(run, Cause.fail(unserialisable(form.failure.message)), job)
    job.log.warn("its result cannot be kept", { cause: form.failure.message })
  }
  const exit = Exit.succeed(
    Result.isSuccess(form) ? form.success : `Unserializable return value: ${form.failure.message}`,
  )
  const { onSuccess } = run.method
  if (onSuccess === undefined || run.isOver) return exit
  job.state = "succeeded"
  return Effect.flatMap(
    invokeHook(run, job, () => onSuccess(value, job)),
    (hooked) => (Exit.isFailure(hooked) ? failed(run, hooked.cause, job) : exit),
  )
}

const failed = (run: AttemptedRun, cause: Cause.Cause<unknown>, job: AttemptedJob): Effect.Effect<unknown, unknown> => {
  const { onFailure } = run.method
  const thrown = readable(Cause.squash(cause))
  if (onFailure === undefined || run.isOver || isRequest(thrown)) return Exit.failCause(cause)
  job.state = "failed"
  return Effect.flatMap(
    invokeHook(run, job, () => onFailure(thrown, job)),
    (hooked) => {
      if (Exit.isSuccess(hooked)) return Exit.failCause(cause)
      // An error that must not be retried stays final when its `onFailure` hook fails as well.
      const raised = readable(Cause.squash(hooked.cause))
      const final = (thrown instanceof KnownFailure && thrown.final) || thrown instanceof Reject
      const speaks = isRequest(raised) || raised instanceof Reject
      return final && !speaks ? Exit.fail(new KnownFailure(jobError(raised), true)) : hooked
    },
  )
}

/** Whether the handler threw `Retry` or `Ignore`, which request an outcome and are no failures. */
const isRequest = (thrown: unknown): boolean => thrown instanceof Retry || thrown instanceof Ignore

const invalidResult = ({ message, field }: InvalidValue): KnownFailure => {
  const error = { name: "InvalidResult", message, reason: "invalid-result", ...(field === "" ? {} : { field }) }
  return new KnownFailure(error, true)
}

const unserialisable = (message: string): KnownFailure =>
  new KnownFailure({ name: "UnserialisableResult", message, reason: "result-unserialisable" }, true)

/** Longest wait for `onStopped`. The slot of the job stays taken until the hook has ended or this time is over. */
const LIMIT_MS = 10_000

/**
 * Calls the hook `onStopped` of a method whose job was cancelled while it ran, in the worker's own process. Never
 * fails: an error of the hook is logged and does not change the job.
 */
export const runStoppedHook = Effect.fnUntraced(function* (
  { onStopped }: Pick<ErasedMethod, "onStopped">,
  job: Omit<AttemptedJob, "hasReturned" | "steps" | "useSteps">,
  limitMs: number = LIMIT_MS,
) {
  if (onStopped === undefined) return
  job.state = "cancelled"
  // The hook gets an invocation and a fiber of its own, because those of the run may hold a handler that ignored its
  // cancellation.
  const hook: Invocation = { pending: undefined, isEffect: false }
  const fiber = Effect.runFork(invokeHook(hook, job, () => onStopped(job)))
  const exit = yield* Effect.timeoutOption(Fiber.join(fiber), limitMs)
  if (Option.isNone(exit)) {
    fiber.interruptUnsafe()
    job.log.error(`onStopped did not end within ${limitMs / 1000} s; the worker no longer waits for it`)
  } else if (Exit.isFailure(exit.value)) {
    const cause = Cause.squash(exit.value.cause)
    job.log.error("onStopped failed", { cause: cause instanceof Error ? cause.message : String(cause) })
  }
})
