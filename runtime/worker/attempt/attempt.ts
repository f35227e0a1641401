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
import { flatMapNow } from "../../async/now.ts"
import { jobError, KnownFailure, readable } from "../../jobs/outcome/job-error.ts"
import type { InvalidValue } from "../../options/json-schema.ts"
import { jsonForm } from "../../protocol/codec/json.ts"
import type { StepEngine } from "../../steps/engine.ts"
import { type Invocation, invoke, invokeHook, validate } from "./invocation.ts"

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

/**
 * Succeeds with the JSON form of the checked result; of one that has none, with a text that says why. Fails with what the
 * handler threw, with a {@link KnownFailure} for a result that cannot be kept and that other tasks get, or with what a hook
 * threw, which counts as if the handler had thrown it.
 */
export const attempt = (run: AttemptedRun, input: unknown, job: AttemptedJob): Effect.Effect<AttemptExit> =>
  flatMapNow(
    invoke(run, job, () => run.method.run(input, job)),
    (answered) => {
      job.hasReturned = true
      // A handler that goes on after its attempt may still come to a first step, and stays there.
      const steps = run.pending === undefined ? job.steps : job.useSteps()
      return steps === undefined ? ended(run, answered, job) : afterSteps(run, answered, job, steps)
    },
  )

const ended = (run: AttemptedRun, exit: AttemptExit, job: AttemptedJob): Effect.Effect<AttemptExit> =>
  Exit.isFailure(exit) ? failed(run, exit.cause, job) : returned(run, exit.value, job)

/** The steps that the handler has begun end first. Of an attempt that was stopped, or that undid its steps, nothing else counts. */
const afterSteps = (run: AttemptedRun, answered: AttemptExit, job: AttemptedJob, steps: StepEngine) =>
  Effect.flatMap(
    Effect.promise(() => steps.finish(answered)),
    (exit) => {
      run.pending = steps.pending(run.pending)
      return steps.isStopped ? Effect.succeed(exit) : ended(run, exit, job)
    },
  )

type AttemptExit = Exit.Exit<unknown, unknown>

/** The handler has returned a value: checks it, and calls `onSuccess`. */
const returned = (run: AttemptedRun, value: unknown, job: AttemptedJob): Effect.Effect<AttemptExit> => {
  const { output, onSuccess } = run.method
  const checking = output === undefined ? Effect.succeed(Result.succeed(value)) : validate(output, value)
  return flatMapNow(checking, (checked) => {
    if (Result.isFailure(checked)) return failed(run, Cause.fail(invalidResult(checked.failure)), job)
    // The JSON form is made before `onSuccess` runs, because the hook may change the value that it gets.
    const form = jsonForm(checked.success, "result")
    if (Result.isFailure(form)) {
      // A placeholder is enough for people who look at the job, but not for a follow-up task that computes with the
      // result.
      if (run.handsOn) return failed(run, Cause.fail(unserialisable(form.failure.message)), job)
      job.log.warn("its result cannot be kept", { cause: form.failure.message })
    }
    const kept = Result.isSuccess(form) ? form.success : `Unserializable return value: ${form.failure.message}`
    const exit: Effect.Effect<AttemptExit> = Effect.succeed(Exit.succeed(kept))
    if (onSuccess === undefined || run.isOver) return exit
    job.state = "succeeded"
    const hook = invokeHook(run, job, () => onSuccess(checked.success, job))
    return flatMapNow(hook, (hooked) => (Exit.isFailure(hooked) ? failed(run, hooked.cause, job) : exit))
  })
}

const failed = Effect.fnUntraced(function* (
  run: AttemptedRun,
  cause: Cause.Cause<unknown>,
  job: AttemptedJob,
): Effect.fn.Return<AttemptExit> {
  const { onFailure } = run.method
  const thrown = readable(Cause.squash(cause))
  if (onFailure === undefined || run.isOver || isRequest(thrown)) return Exit.failCause(cause)
  job.state = "failed"
  const hooked = yield* invokeHook(run, job, () => onFailure(thrown, job))
  if (Exit.isSuccess(hooked)) return Exit.failCause(cause)
  // An error that must not be retried stays final when its `onFailure` hook fails as well.
  const raised = readable(Cause.squash(hooked.cause))
  const final = (thrown instanceof KnownFailure && thrown.final) || thrown instanceof Reject
  const speaks = isRequest(raised) || raised instanceof Reject
  return final && !speaks ? Exit.fail(new KnownFailure(jobError(raised), true)) : hooked
})

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
  const exit = yield* Effect.timeoutOption(
    invokeHook(hook, job, () => onStopped(job)),
    limitMs,
  )
  if (Option.isNone(exit)) {
    hook.interrupt?.()
    job.log.error(`onStopped has not ended within ${limitMs / 1000} s and is not waited for any longer`)
  } else if (Exit.isFailure(exit.value)) {
    const cause = Cause.squash(exit.value.cause)
    job.log.error("onStopped failed", { cause: cause instanceof Error ? cause.message : String(cause) })
  }
})
