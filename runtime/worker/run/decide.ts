/** Decides the settlement for the outcome of a handler: success, repetition, retry, failure, or a stop from outside. */

import * as Cause from "effect/Cause"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import type { ErasedMethod } from "../../actor/actor.ts"
import { Ignore, Reject, Retry } from "../../actor/job.ts"
import { DEFAULT_KEEP_FAILED_MS } from "../../connection/connection.ts"
import { generateId } from "../../id.ts"
import { afterFailure, afterSuccess, type Ended } from "../../jobs/outcome/follow-ups.ts"
import {
  jobError,
  KnownFailure,
  OUTCOME_LOST,
  outcomeLost,
  readable,
  softLimitError,
} from "../../jobs/outcome/job-error.ts"
import { askedRetryAfter, intervalAt, resolveRetry, retryAfter } from "../../jobs/outcome/retry.ts"
import * as settlement from "../../jobs/outcome/settlement.ts"
import { milliseconds } from "../../options/duration.ts"
import { type Embed, NO_EMBED } from "../../protocol/body.ts"
import { encodeEnvelope } from "../../protocol/envelope.ts"
import { isExternal } from "../../protocol/headers.ts"
import type { JobPosting } from "../../protocol/message.ts"
import type { JobError } from "../../protocol/record.ts"
import { traceContextOf } from "../../protocol/trace-context.ts"
import type { Settlement } from "../../transport/job-store/transport.ts"
import type { ActiveDelivery, ExternalTasks, HandlerRun } from "../active-delivery.ts"
import type { ActorPool } from "../actors/actor-pool.ts"
import { NOTHING_TO_SETTLE } from "./claim.ts"
import type { MethodSettingsCache } from "./method-settings.ts"

export class OutcomeDecider {
  readonly #pool: ActorPool
  readonly #settings: MethodSettingsCache
  readonly #foreign: ExternalTasks | undefined
  readonly #maxTask: number

  /** `external`: completes tasks of Celery's clients. `maxTask`: largest task of the transport, in bytes. */
  constructor(pool: ActorPool, settings: MethodSettingsCache, external: ExternalTasks | undefined, maxTask: number) {
    this.#pool = pool
    this.#settings = settings
    this.#foreign = external
    this.#maxTask = maxTask
  }

  /** The settlement for the exit of the attempt. `undefined`: there is nothing to settle. */
  decide(active: ActiveDelivery, run: HandlerRun, exit: Exit.Exit<unknown, unknown>): Settlement | undefined {
    if (run.stop !== undefined) return this.stopped(active, run)
    const attempt = this.attempt(active, run)
    if (Exit.isFailure(exit)) return this.#failure(attempt, run, readable(Cause.squash(exit.cause)))
    const { repeat } = run.task.own
    if (repeat !== undefined && repeat.done < repeat.times)
      return settlement.repeated(attempt, repeat, intervalAt(repeat.intervalsMs, repeat.done), exit.value)
    let followUps: ReadonlyArray<JobPosting>
    try {
      followUps = run.embed === NO_EMBED ? [] : afterSuccess(run.embed, exit.value, this.#ended(attempt))
    } catch (cause) {
      const message = `the handler succeeded, but its follow-up tasks cannot be submitted: ${messageOf(cause)}`
      const error = { name: "FollowUpsRefused", message, reason: "follow-ups-refused" }
      return this.givenUp(attempt, run.embed, error, error.reason)
    }
    return settlement.succeeded(attempt, exit.value, followUps)
  }

  /** The settlement of a run whose result the transport can never store: the job fails with that error, once, with its errbacks. */
  refused(active: ActiveDelivery, run: HandlerRun, error: JobError): Settlement {
    return this.givenUp(this.attempt(active, run), run.embed, error, deadOf(run.method.acks?.onFailure, error))
  }

  /**
   * The settlement for a run whose handler has run, after which the worker itself failed: the job fails, because the
   * handler must not run a second time for that. `undefined` if the handler has not run, or the run was ended from outside:
   * its task is given back, or another delivery has it.
   */
  afterFault(active: ActiveDelivery, cause: unknown): Settlement | undefined {
    const { run, called, stop } = active
    if (run === undefined || !called || (stop !== undefined && stop !== "timeout")) return undefined
    const error = outcomeLost(messageOf(cause))
    try {
      return this.givenUp(this.attempt(active, run), run.embed, error, error.reason)
    } catch {
      // The part that failed may fail again, so this settlement uses as few parts as possible.
      const { posting, task, record } = run
      const { token, fence } = active.delivery
      const keep = { resultMs: DEFAULT_KEEP_FAILED_MS, failureMs: DEFAULT_KEEP_FAILED_MS }
      const attempt = {
        token,
        fence,
        posting,
        task,
        record,
        now: run.clock.now(),
        dueFrom: run.clock.transportNow(),
        keep,
      }
      return settlement.failed(attempt, error, { dead: error.reason })
    }
  }

  /** The settlement for a run that was ended from outside. */
  stopped(active: ActiveDelivery, run: HandlerRun): Settlement | undefined {
    const attempt = this.attempt(active, run)
    switch (run.stop) {
      case "timeout": {
        const seconds = run.hardMs / 1000
        const message = `it exceeded its hard time limit of ${seconds} s`
        const error = { name: "TimeLimitExceeded", message, reason: "timeout" }
        return this.#givenUpOrRetried(attempt, run, error, rejected(run.method.acks?.onTimeout, error))
      }
      case "hand-back":
        if (!active.canGoBack) {
          const error = workerStopped(active.offQueue)
          return this.#givenUpOrRetried(attempt, run, error, error.reason)
        }
        return settlement.handedBack(
          { ...attempt, record: run.record },
          run.claimed || run.reported || run.metaChanges > 0,
          active.backInMs,
        )
      case "cancelled":
        // The record is cancelled already, so only the task is taken off its queue.
        return { token: attempt.token, then: { kind: "ack" } }
      default:
        return NOTHING_TO_SETTLE
    }
  }

  #failure(attempt: settlement.Attempt, run: HandlerRun, thrown: unknown): Settlement {
    if (thrown instanceof Ignore) return settlement.succeeded(attempt, undefined)
    if (thrown instanceof Reject) return this.givenUp(attempt, run.embed, jobError(thrown, "rejected"), "rejected")
    const { acks } = run.method
    if (thrown instanceof KnownFailure && thrown.final)
      return this.givenUp(attempt, run.embed, thrown.error, rejected(acks?.onFailure, thrown.error))
    const asked = thrown instanceof Retry
    const error = errorOf(run, asked ? (thrown.cause ?? thrown) : thrown)
    const dead = rejected(acks?.onFailure, error)
    if (!asked) return this.#givenUpOrRetried(attempt, run, error, dead)
    const after = thrown.after === undefined ? undefined : milliseconds("after", thrown.after)
    const policy = resolveRetry(run.task.own.retry, run.method.retry)
    const wait = askedRetryAfter(policy, after, run.posting.retries, Math.random())
    return wait === undefined
      ? this.givenUp(attempt, run.embed, error, dead)
      : this.#again(attempt, run.embed, error, wait, policy.front)
  }

  #givenUpOrRetried(attempt: settlement.Attempt, run: HandlerRun, error: JobError, dead?: string): Settlement {
    return this.retried(attempt, run.method, error, () => run.embed) ?? this.givenUp(attempt, run.embed, error, dead)
  }

  /** The settlement that schedules the next attempt, if the retry policies of task and method allow one. */
  retried(
    attempt: settlement.Attempt,
    method: ErasedMethod,
    error: JobError,
    embed: () => Embed,
  ): Settlement | undefined {
    const policy = resolveRetry(attempt.task.own.retry, method.retry)
    const wait = retryAfter(policy, error, attempt.posting.retries, Math.random())
    return wait === undefined ? undefined : this.#again(attempt, embed(), error, wait, policy.front)
  }

  #again(attempt: settlement.Attempt, embed: Embed, error: JobError, wait: number, front: boolean): Settlement {
    const next = settlement.retried(attempt, error, wait, front)
    return this.unlessTooLarge(attempt, next, () => embed, error, "not tried again")
  }

  /**
   * A settlement that posts the task again; a final failure with `error` where the task is too large for the transport: another
   * system may have put a larger task into the queue, and a posting adds some bytes. `notDone` says what is not done then.
   */
  unlessTooLarge(
    attempt: settlement.Attempt,
    next: Settlement,
    embed: () => Embed,
    error: JobError,
    notDone: string,
  ): Settlement {
    const size = Math.max(0, ...(next.followUps ?? []).map(sizeOf))
    if (size <= this.#maxTask) return next
    const why = `and ${notDone}: the task has ${size} bytes; this transport takes at most ${this.#maxTask}`
    return this.givenUp(attempt, embed(), { ...error, message: `${error.message} (${why})` }, "too-large")
  }

  /**
   * The settlement of a final failure. The errbacks are stored in the record, so that they are published even if this
   * worker dies.
   */
  givenUp(attempt: settlement.Attempt, embed: Embed, error: JobError, dead?: string): Settlement {
    let followUps: ReadonlyArray<JobPosting>
    try {
      followUps = afterFailure(embed, error, this.#ended(attempt))
    } catch (cause) {
      const message = `${error.message} (and its errbacks cannot be submitted: ${messageOf(cause)})`
      return settlement.failed(attempt, { ...error, message }, { dead: "errbacks-refused" })
    }
    return settlement.failed(attempt, error, { followUps, ...(dead === undefined ? {} : { dead }) })
  }

  #ended(attempt: settlement.Attempt): Ended {
    const { task, posting, now } = attempt
    const trace = attempt.trace ?? traceContextOf(task)
    const pool = this.#pool
    const queueFor = (name: string, meth: string | null) => pool.queueOf(name, meth) ?? posting.queue
    const redactFor: Ended["redactFor"] = (name, meth) => pool.redactOf(name, meth)
    const external = isExternal(task) ? this.#foreign : undefined
    const celery = external && { isExternal: true, priorityOf: (given: number | null) => external.priorityOf(given) }
    return { task, now, trace, newId: () => generateId(now), queueFor, redactFor, ...celery }
  }

  /** The attempt as it is now: its record includes the latest progress. */
  attempt(active: ActiveDelivery, run: HandlerRun): settlement.Attempt {
    const attempt: { -readonly [Field in keyof settlement.Attempt]: settlement.Attempt[Field] } = {
      token: active.delivery.token,
      fence: active.delivery.fence,
      posting: run.posting,
      task: run.task,
      record: run.progress === undefined ? run.record : { ...run.record, progress: run.progress },
      now: run.clock.now(),
      dueFrom: run.clock.transportNow(),
      keep: this.#settings.of(run.method).keep,
    }
    if (run.trace !== undefined) attempt.trace = run.trace.context
    return attempt
  }
}

/** Bytes of a task as a transport counts them; 0 where it cannot be encoded, which the transport says itself. */
const sizeOf = ({ message }: JobPosting): number =>
  Result.match(encodeEnvelope(message), { onSuccess: ({ length }) => length, onFailure: () => 0 })

const messageOf = (cause: unknown): string => jobError(cause).message

const errorOf = (run: HandlerRun, thrown: unknown): JobError =>
  thrown instanceof KnownFailure ? thrown.error : (softLimitError(thrown, run.softReason) ?? jobError(thrown))

/** The reason why a failed job becomes a dead letter; `undefined` where its method does not ask for dead letters. */
const rejected = (choice: "ack" | "reject" | undefined, { reason }: JobError): string | undefined =>
  choice === "reject" ? reason : undefined

/**
 * The same for a result that the transport refuses. An outcome that could not be stored is always a dead letter, since
 * the application decided nothing about it.
 */
const deadOf = (choice: "ack" | "reject" | undefined, error: JobError): string | undefined =>
  error.reason === OUTCOME_LOST ? error.reason : rejected(choice, error)

const workerStopped = (hadLeft: boolean): JobError => ({
  name: "WorkerStopped",
  message: `its worker stopped while it ran, and the job ${hadLeft ? "had left its queue: it cannot be handed back" : "must not start twice (onLost)"}`,
  reason: "worker-lost",
})
