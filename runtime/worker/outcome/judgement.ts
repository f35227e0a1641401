/** The settlement for what came of a handler: success, repetition, retry, failure, or that it was stopped from outside. */
import { Cause, Exit, Result } from "effect"
import type { ErasedMethod } from "../../actor.ts"
import { Ignore, Reject, Retry } from "../../control.ts"
import { generateId } from "../../id.ts"
import type { Embed } from "../../protocol/body.ts"
import type { JobError } from "../../protocol/record.ts"
import { parseDuration } from "../../protocol/time.ts"
import { traceContextOf } from "../../protocol/trace-context.ts"
import type { Settlement } from "../../transport.ts"
import type { Held, Running } from "../delivery.ts"
import type { ActorPool } from "../preparing/actor-pool.ts"
import type { MethodPlans } from "../running/method-plan.ts"
import { softLimitError } from "../running/soft-limit.ts"
import { NOTHING } from "./decided.ts"
import { afterFailure, afterSuccess, type Ended } from "./follow-ups.ts"
import { jobError, readable } from "./job-error.ts"
import { KnownFailure } from "./known-failure.ts"
import { askedRetryAfter, intervalAt, resolveRetry, retryAfter } from "./retry.ts"
import * as verdict from "./verdict.ts"

export class Judgement {
  readonly #pool: ActorPool
  readonly #plans: MethodPlans

  constructor(pool: ActorPool, plans: MethodPlans) {
    this.#pool = pool
    this.#plans = plans
  }

  /** The settlement for what came of the attempt. */
  judge(held: Held, run: Running, exit: Exit.Exit<unknown, unknown>): Settlement | undefined {
    if (run.stop !== undefined) return this.stopped(held, run)
    const attempt = this.attempt(held, run)
    if (Exit.isFailure(exit)) return this.#failure(attempt, run, readable(Cause.squash(exit.cause)))
    // Should the transport refuse the result for good, the job fails for that, once, with its errbacks.
    held.refused = (error) => this.givenUp(attempt, run.embed, error, rejected(run.method.acks?.onFailure, error))
    const { repeat } = run.task.own
    if (repeat !== undefined && repeat.done < repeat.times)
      return verdict.repeated(attempt, repeat, intervalAt(repeat.intervalsMs, repeat.done))
    return verdict.succeeded(attempt, exit.value, afterSuccess(run.embed, exit.value, this.#ended(attempt)))
  }

  /** The settlement of a run that was ended from outside. */
  stopped(held: Held, run: Running): Settlement | undefined {
    const attempt = this.attempt(held, run)
    switch (run.stop) {
      case "timeout": {
        const seconds = (run.hardAt - run.startedAt) / 1000
        const message = `it ran longer than its hard limit of ${seconds} s`
        const error = { name: "TimeLimitExceeded", message, reason: "timeout" }
        return this.#givenUpOrRetried(attempt, run, error, rejected(run.method.acks?.onTimeout, error))
      }
      case "hand-back":
        return held.offQueue
          ? this.#givenUpOrRetried(attempt, run, WORKER_STOPPED, WORKER_STOPPED.reason)
          : verdict.handedBack({ ...attempt, record: run.record }, run.claimed || run.reported, 0)
      case "cancelled":
        // The record says so already; only the task is left to take off the queue.
        return { token: attempt.token, then: { kind: "ack" } }
      default:
        return NOTHING
    }
  }

  #failure(attempt: verdict.Attempt, run: Running, thrown: unknown): Settlement {
    if (thrown instanceof Ignore) return verdict.succeeded(attempt, undefined)
    if (thrown instanceof Reject) return this.givenUp(attempt, run.embed, jobError(thrown, "rejected"), "rejected")
    const { acks } = run.method
    if (thrown instanceof KnownFailure && thrown.final)
      return this.givenUp(attempt, run.embed, thrown.error, rejected(acks?.onFailure, thrown.error))
    const asked = thrown instanceof Retry
    const error = errorOf(run, asked ? (thrown.cause ?? thrown) : thrown)
    const dead = rejected(acks?.onFailure, error)
    if (!asked) return this.#givenUpOrRetried(attempt, run, error, dead)
    const after = thrown.after === undefined ? undefined : Result.getOrElse(parseDuration(thrown.after), () => 0)
    const policy = resolveRetry(run.task.own.retry, run.method.retry)
    const wait = askedRetryAfter(policy, after, run.posting.retries, Math.random())
    return wait === undefined
      ? this.givenUp(attempt, run.embed, error, dead)
      : verdict.retried(attempt, error, wait, policy.front)
  }

  #givenUpOrRetried(attempt: verdict.Attempt, run: Running, error: JobError, dead?: string): Settlement {
    return this.retried(attempt, run.method, error) ?? this.givenUp(attempt, run.embed, error, dead)
  }

  /** The next attempt, if the policies of task and method want one. */
  retried(attempt: verdict.Attempt, method: ErasedMethod, error: JobError): Settlement | undefined {
    const policy = resolveRetry(attempt.task.own.retry, method.retry)
    const wait = retryAfter(policy, error, attempt.posting.retries, Math.random())
    return wait === undefined ? undefined : verdict.retried(attempt, error, wait, policy.front)
  }

  /** A failure for good: its errbacks are fixed in the record that says so. */
  givenUp(attempt: verdict.Attempt, embed: Embed, error: JobError, dead?: string): Settlement {
    const followUps = afterFailure(embed, error, this.#ended(attempt))
    return verdict.failed(attempt, error, { followUps, ...(dead === undefined ? {} : { dead }) })
  }

  #ended(attempt: verdict.Attempt): Ended {
    const { task, posting, now } = attempt
    const trace = attempt.trace ?? traceContextOf(task)
    const pool = this.#pool
    const queueFor = (name: string, meth: string | null) => pool.queueOf(name, meth) ?? posting.queue
    return { task, now, trace, newId: () => generateId(now), queueFor }
  }

  /** What there is to know about a run at this moment. */
  attempt(held: Held, run: Running): verdict.Attempt {
    return {
      token: held.delivery.token,
      fence: held.delivery.fence,
      posting: run.posting,
      task: run.task,
      record: run.progress === undefined ? run.record : { ...run.record, progress: run.progress },
      now: Date.now(),
      keep: this.#plans.of(run.method).keep,
      ...(run.trace === undefined ? {} : { trace: run.trace.context }),
    }
  }
}

const errorOf = (run: Running, thrown: unknown): JobError =>
  thrown instanceof KnownFailure ? thrown.error : (softLimitError(thrown, run.softReason) ?? jobError(thrown))

/** Why a job that has failed is a dead letter; nothing, where its method does not want that. */
const rejected = (choice: "ack" | "reject" | undefined, { reason }: JobError): string | undefined =>
  choice === "reject" ? reason : undefined

const WORKER_STOPPED: JobError = {
  name: "WorkerStopped",
  message: "its worker stopped while it ran, and it had left its queue: it cannot be handed back",
  reason: "worker-lost",
}
