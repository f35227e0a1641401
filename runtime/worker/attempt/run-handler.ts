/**
 * One attempt, in the process that runs the handler: it calls the handler, checks its result, and calls the method's
 * hooks. Each step is awaited before the next begins, and no further step begins once the run was ended from outside.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type { ErasedMethod } from "../../actor/actor.ts"
import { Ignore, type Job, type JobState, Reject, Retry } from "../../actor/job.ts"
import { runEffect } from "../../async/maybe-effect.ts"
import { jobError, KnownFailure, readable } from "../../jobs/outcome/job-error.ts"
import type { InvalidValue } from "../../options/json-schema.ts"
import { jsonForm } from "../../protocol/codec/json.ts"
import type { StepEngine } from "../../steps/engine.ts"
import { type Invocation, invoke, invokeHook, type OnExit, validate } from "./invocation.ts"

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

/** An error of the worker itself while it carried out an attempt. */
export class AttemptFault extends Error {
  readonly _tag = "AttemptFault"
  override readonly name = "AttemptFault"
  override readonly cause: unknown

  constructor(cause: unknown) {
    super("an attempt could not be run")
    this.cause = cause
  }
}

type AttemptExit = Exit.Exit<unknown, unknown>

/**
 * Carries out an attempt. The exit that `done` gets, once, has the JSON form of the checked result; of one that has none, a
 * text that says why. It fails with what the handler threw, with a {@link KnownFailure} for a result that cannot be kept and
 * that other tasks get, with what a hook threw, which counts as if the handler had thrown it, or with an
 * {@link AttemptFault}.
 */
export const runHandler = (run: AttemptedRun, input: unknown, job: AttemptedJob, done: OnExit): void =>
  invoke(
    run,
    job,
    () => run.method.run(input, job),
    (answered) => {
      try {
        job.hasReturned = true
        // A handler that goes on after its attempt may still come to a first step, and stays there.
        const steps = run.pending === undefined ? job.steps : job.useSteps()
        if (steps === undefined) ended(run, answered, job, done)
        else afterSteps(run, answered, job, steps, done)
      } catch (thrown) {
        done(Exit.fail(new AttemptFault(thrown)))
      }
    },
  )

/** A function that takes what comes later. What it throws is an {@link AttemptFault}. */
const guarded =
  <A>(done: OnExit, next: (value: A) => void): ((value: A) => void) =>
  (value) => {
    try {
      next(value)
    } catch (thrown) {
      done(Exit.fail(new AttemptFault(thrown)))
    }
  }

const ended = (run: AttemptedRun, exit: AttemptExit, job: AttemptedJob, done: OnExit): void => {
  if (Exit.isFailure(exit)) failed(run, exit.cause, job, done)
  else returned(run, exit.value, job, done)
}

/** The steps that the handler has begun end first. Of an attempt that was stopped, or that undid its steps, nothing else counts. */
const afterSteps = (
  run: AttemptedRun,
  answered: AttemptExit,
  job: AttemptedJob,
  steps: StepEngine,
  done: OnExit,
): void => {
  const finished = guarded(done, (exit: AttemptExit) => {
    run.pending = steps.pending(run.pending)
    if (steps.isStopped) done(exit)
    else ended(run, exit, job, done)
  })
  steps.finish(answered).then(finished, (thrown: unknown) => done(Exit.fail(new AttemptFault(thrown))))
}

/** The handler has returned a value, which is checked. */
const returned = (run: AttemptedRun, value: unknown, job: AttemptedJob, done: OnExit): void => {
  const { output } = run.method
  if (output === undefined) kept(run, value, job, done)
  else check(run, output, value, job, done)
}

const check = (
  run: AttemptedRun,
  output: NonNullable<ErasedMethod["output"]>,
  value: unknown,
  job: AttemptedJob,
  done: OnExit,
): void =>
  runEffect(
    validate(output, value),
    guarded(done, (exit) => {
      if (Exit.isFailure(exit)) throw Cause.squash(exit.cause)
      const checked = exit.value
      if (Result.isSuccess(checked)) kept(run, checked.success, job, done)
      else failed(run, Cause.fail(invalidResult(checked.failure)), job, done)
    }),
  )

/** The result is as its method promises: keeps its JSON form, and calls `onSuccess`. */
const kept = (run: AttemptedRun, value: unknown, job: AttemptedJob, done: OnExit): void => {
  // The JSON form is made before `onSuccess` runs, because the hook may change the value that it gets.
  const form = jsonForm(value, "result")
  if (Result.isFailure(form)) {
    // A placeholder is enough for people who look at the job, but not for a follow-up task that computes with the
    // result.
    if (run.handsOn) {
      failed(run, Cause.fail(unserialisable(form.failure.message)), job, done)
      return
    }
    job.log.warn("its result cannot be kept", { cause: form.failure.message })
  }
  const exit = Exit.succeed(
    Result.isSuccess(form) ? form.success : `Unserializable return value: ${form.failure.message}`,
  )
  if (run.method.onSuccess === undefined || run.isOver) done(exit)
  else callOnSuccess(run, run.method.onSuccess, value, exit, job, done)
}

const callOnSuccess = (
  run: AttemptedRun,
  onSuccess: NonNullable<ErasedMethod["onSuccess"]>,
  value: unknown,
  exit: AttemptExit,
  job: AttemptedJob,
  done: OnExit,
): void => {
  job.state = "succeeded"
  const hooked = guarded(done, (answered: AttemptExit) => {
    if (Exit.isFailure(answered)) failed(run, answered.cause, job, done)
    else done(exit)
  })
  invokeHook(run, job, () => onSuccess(value, job), hooked)
}

const failed = (run: AttemptedRun, cause: Cause.Cause<unknown>, job: AttemptedJob, done: OnExit): void => {
  const { onFailure } = run.method
  const thrown = readable(Cause.squash(cause))
  if (onFailure === undefined || run.isOver || isRequest(thrown)) {
    done(Exit.failCause(cause))
    return
  }
  job.state = "failed"
  const hooked = guarded(done, (answered: AttemptExit) => {
    if (Exit.isSuccess(answered)) return done(Exit.failCause(cause))
    // An error that must not be retried stays final when its `onFailure` hook fails as well.
    const raised = readable(Cause.squash(answered.cause))
    const final = (thrown instanceof KnownFailure && thrown.final) || thrown instanceof Reject
    const speaks = isRequest(raised) || raised instanceof Reject
    done(final && !speaks ? Exit.fail(new KnownFailure(jobError(raised), true)) : answered)
  })
  invokeHook(run, job, () => onFailure(thrown, job), hooked)
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
  // The hook gets an invocation of its own, because the run's one may still hold a handler that ignored its
  // cancellation.
  const hook: Invocation = { interrupt: undefined, pending: undefined }
  const called = Effect.callback<AttemptExit>((resume) =>
    invokeHook(
      hook,
      job,
      () => onStopped(job),
      (answered) => resume(Effect.succeed(answered)),
    ),
  )
  const exit = yield* Effect.timeoutOption(called, limitMs)
  if (Option.isNone(exit)) {
    hook.interrupt?.()
    job.log.error(`onStopped did not end within ${limitMs / 1000} s; the worker no longer waits for it`)
  } else if (Exit.isFailure(exit.value)) {
    const cause = Cause.squash(exit.value.cause)
    job.log.error("onStopped failed", { cause: cause instanceof Error ? cause.message : String(cause) })
  }
})
