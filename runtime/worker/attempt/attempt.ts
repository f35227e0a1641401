/**
 * One attempt, in the process that runs the handler: the handler, the check of what it answered, and the method's hooks.
 * Each is awaited before the next begins, and none begins once the run was ended from outside.
 */
import { Cause, Effect, Exit, Option, Result } from "effect"
import type { ErasedMethod } from "../../actor/actor.ts"
import type { Job, JobState } from "../../actor/job.ts"
import { Ignore, Reject, Retry } from "../../actor/outcomes.ts"
import { jobError, readable } from "../../jobs/outcome/job-error.ts"
import { KnownFailure } from "../../jobs/outcome/known-failure.ts"
import { type Invocation, invoke } from "./invocation.ts"
import { type InvalidValue, jsonForm, validate } from "./validation.ts"

/** A run as an attempt needs it. */
export interface AttemptedRun extends Invocation {
  readonly method: ErasedMethod
  /** Ended from outside: what comes of it counts for nothing. */
  readonly isOver: boolean
}

/** The job of a handler, which can be told how it stands. */
export interface AttemptedJob extends Job {
  state: JobState
}

/**
 * Succeeds with the JSON form of the checked result. Fails with what the handler threw, with a {@link KnownFailure} for a
 * result that cannot be kept, or with what a hook threw, which counts as if the handler had thrown it.
 */
export const attempt = Effect.fnUntraced(function* (run: AttemptedRun, input: unknown, job: AttemptedJob) {
  const { method } = run
  const answered = yield* invoke(run, job, () => method.run(input, job))
  if (Exit.isFailure(answered)) return yield* failed(run, answered.cause, job)
  const { output } = method
  const checked = output === undefined ? Result.succeed(answered.value) : yield* validate(output, answered.value)
  if (Result.isFailure(checked)) return yield* failed(run, Cause.fail(invalidResult(checked.failure)), job)
  // Made before the hook, which may change the value that it gets.
  const form = jsonForm(checked.success)
  if (Result.isFailure(form)) return yield* failed(run, Cause.fail(unserialisable(form.failure)), job)
  const { onSuccess } = method
  if (onSuccess !== undefined && !run.isOver) {
    job.state = "succeeded"
    const hooked = yield* invoke(run, job, () => onSuccess(checked.success, job))
    if (Exit.isFailure(hooked)) return yield* failed(run, hooked.cause, job)
  }
  return Exit.succeed(form.success)
})

const failed = Effect.fnUntraced(function* (run: AttemptedRun, cause: Cause.Cause<unknown>, job: AttemptedJob) {
  const { onFailure } = run.method
  const thrown = readable(Cause.squash(cause))
  if (onFailure === undefined || run.isOver || isRequest(thrown)) return Exit.failCause(cause)
  job.state = "failed"
  const hooked = yield* invoke(run, job, () => onFailure(thrown, job))
  if (Exit.isSuccess(hooked)) return Exit.failCause(cause)
  // What was not to be tried again is not tried again because its hook failed, too.
  const raised = readable(Cause.squash(hooked.cause))
  const final = (thrown instanceof KnownFailure && thrown.final) || thrown instanceof Reject
  const speaks = isRequest(raised) || raised instanceof Reject
  return final && !speaks ? Exit.fail(new KnownFailure(jobError(raised), true)) : hooked
})

/** Thrown to say how the attempt ends, which is no failure. */
const isRequest = (thrown: unknown): boolean => thrown instanceof Retry || thrown instanceof Ignore

const invalidResult = ({ message, field }: InvalidValue): KnownFailure => {
  const error = { name: "InvalidResult", message, reason: "invalid-result", ...(field === "" ? {} : { field }) }
  return new KnownFailure(error, true)
}

const unserialisable = (message: string): KnownFailure =>
  new KnownFailure({ name: "UnserialisableResult", message, reason: "result-unserialisable" }, true)

/** The hook is waited for before the slot is free again, but no longer than this. */
const LIMIT_MS = 10_000

/** Never fails: what goes wrong is logged, and the job stays as it is. */
export const runStoppedHook = Effect.fnUntraced(function* (
  { onStopped }: Pick<ErasedMethod, "onStopped">,
  job: AttemptedJob,
  limitMs: number = LIMIT_MS,
) {
  if (onStopped === undefined) return
  job.state = "cancelled"
  // Not the run's own: a handler that goes on after its job was cancelled may still be pending there.
  const hook: Invocation = { interrupt: undefined, pending: undefined }
  const exit = yield* Effect.timeoutOption(
    invoke(hook, job, () => onStopped(job)),
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
