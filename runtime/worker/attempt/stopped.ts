/** Tells a method that a job of it was cancelled while it ran: its hook `onStopped`, in the worker's own process. */
import { Cause, Effect, Exit, Option } from "effect"
import type { ErasedMethod } from "../../actor/actor.ts"
import type { AttemptedJob } from "./attempt.ts"
import { type Invoked, invoke } from "./invocation.ts"

/** The hook is waited for before the slot is free again, but no longer than this. */
const LIMIT_MS = 10_000

/** Never fails: what goes wrong is logged, and the job stays as it is. */
export const tellStopped = Effect.fnUntraced(function* (
  { onStopped }: Pick<ErasedMethod, "onStopped">,
  job: AttemptedJob,
  limitMs: number = LIMIT_MS,
) {
  if (onStopped === undefined) return
  job.state = "cancelled"
  // Not the run's own: a handler that goes on after its job was cancelled may still be pending there.
  const hook: Invoked = { interrupt: undefined, pending: undefined }
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
