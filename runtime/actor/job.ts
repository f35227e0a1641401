/** The job, as a handler gets it beside its input, and the errors by which a handler chooses how its attempt ends. */
import type { OwnEventFields } from "../cluster/events.ts"
import type { JobHandle } from "../jobs/handle.ts"
import type { SubmissionFields } from "../jobs/submission/submission.ts"
import type { JobView } from "../jobs/view.ts"
import { type DurationInput, milliseconds } from "../options/duration.ts"
import type { Headers } from "../protocol/message.ts"
import type { AnyActor, ChildActorHandle } from "./actor-handle.ts"
import type { JobLog, Steps } from "./step.ts"

/** One attempt of a job, as its handler gets it. `Use`: what the actor's `start` returned. */
export interface Job<Use = unknown> extends Steps {
  /** Id of the job. It is the same in all attempts, which makes it a good idempotency key. */
  readonly id: string
  /** Number of the attempt, from 1. Grows with every attempt, also after a worker died. */
  readonly attempt: number
  /** Number of the run, from 1. Grows when the job is run again by hand, or repeats. */
  readonly run: number
  /** Number of retries so far, by the retry policy or the handler; a redelivery after a lost worker is none. */
  readonly retries: number
  /** Name of the actor whose handler this is. */
  readonly actorName: string
  /** Name of the method. */
  readonly method: string
  /** Queue that the task came from. */
  readonly queue: string
  /** `started` in the handler; in its hooks the outcome of the attempt. */
  readonly state: JobState
  /** Id of the job that submitted this one, or that this one follows; `undefined` where there is none. */
  readonly parentId: string | undefined
  /**
   * Id of the first job of the tree that this one belongs to, which may be its own. `undefined` where its sender did
   * not set it.
   */
  readonly rootId: string | undefined
  /** Ids of the jobs that this one had to wait for; most often none. */
  readonly after: ReadonlyArray<string>
  /** Fires at the soft time limit, at the hard one, when the job is cancelled, and when the worker must stop now. */
  readonly signal: AbortSignal
  /** When the hard time limit ends this attempt, in milliseconds since the epoch. */
  readonly deadline: number
  /** All headers of the task. */
  readonly headers: Headers
  /** What the submitter attached as `meta`, with the changes since then; empty where nothing was attached. */
  readonly meta: Readonly<Record<string, unknown>>
  /** What the actor's `start` returned. */
  readonly use: Use
  /** Writes log lines with the job's id, task, method, queue and attempt. */
  readonly log: JobLog
  /**
   * Reports progress: `fraction` from 0 to 1 (clamped), `detail` any JSON value. Cheap to call: it is stored a few times a
   * second at most, and the last value wins. Of a detail with more than 16,384 characters of JSON only the beginning is kept.
   */
  progress(fraction: number, detail?: unknown): void
  /**
   * Changes the job's meta data by a merge patch (RFC 7396): fields are set, `null` removes one. Cheap to call: it is stored with
   * the progress, and with the outcome. Throws `CallboardError` `invalid-input` for what is no JSON object, and where the meta
   * data would have more than 65,536 characters of JSON.
   */
  patchMeta(patch: Readonly<Record<string, unknown>>): void
  /**
   * Sends an event of the application, such as `order-shipped`, with the job's id as `uuid`. Best effort: only processes
   * that listen at that moment get it. The type is `category-action` in lower case, 100 characters at most, and its category
   * is neither `task` nor `worker`; the fields are JSON of 64 KiB at most. Throws `CallboardError` `invalid-input`, naming
   * the field.
   */
  event(type: string, fields?: OwnEventFields): void
  /**
   * Submits a task as a child of this job: sets `parentId` and `rootId`. Resolves once it is stored; fails with
   * `CallboardError`.
   */
  submit(task: string, fields?: SubmissionFields): Promise<JobHandle>
  /**
   * A typed handle of an actor that submits as {@link submit} does: `job.actor<typeof text>("text")`. The actor's
   * module is not loaded.
   */
  actor<A extends AnyActor>(name: A["name"]): ChildActorHandle<A>
  /**
   * The handle of any job by its id, for instance of one in {@link after}: its result, whether it goes on, cancelling it. A
   * handler that waits for a job that waits for a free slot of the same workers may wait for ever; let it submit with `after`.
   */
  job<R = unknown>(id: string): JobHandle<R>
  /** The job that `parentId` names; `undefined` where there is none, or where its record is not kept any more. */
  parent(): Promise<JobView | undefined>
  /**
   * Makes the error that asks for a retry; the handler throws it: `throw job.retry({ after: "10s" })`. `after` defaults to
   * the wait of the retry policy, `cause` is the error to record instead of this one.
   */
  retry(options?: { readonly after?: DurationInput; readonly cause?: unknown }): Error
}

/** States of a job in its handler and its hooks. */
export type JobState = "started" | "succeeded" | "failed" | "cancelled"

/**
 * Asks for a retry after `after`, whatever errors the method's `retry` names. There are at most `retry.max` retries, by
 * default 3. The constructor throws `CallboardError` `invalid-input` where `after` is no duration.
 *
 * @example
 * ```ts
 * if (response.status === 429) throw new Retry({ after: "30 seconds" })
 * ```
 */
export class Retry extends Error {
  readonly _tag = "Retry"
  override readonly name = "Retry"
  readonly after: DurationInput | undefined
  constructor(options: { readonly after?: DurationInput; readonly cause?: unknown } = {}) {
    super("the handler asked for a retry", "cause" in options ? { cause: options.cause } : {})
    if (options.after !== undefined) milliseconds("after", options.after)
    this.after = options.after
  }
}

/**
 * Fails the job at once, without retries, as a dead letter.
 *
 * @example
 * ```ts
 * if (price === undefined) throw new Reject(`there is no ${item}`)
 * ```
 */
export class Reject extends Error {
  readonly _tag = "Reject"
  override readonly name = "Reject"
}

/**
 * Ends the job as succeeded without a result (Celery's `Ignore`): no callbacks are submitted, and the job is not
 * repeated.
 */
export class Ignore extends Error {
  readonly _tag = "Ignore"
  override readonly name = "Ignore"
}
