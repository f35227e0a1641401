/** What a handler gets besides its input: its job. */

import type { OwnEventFields } from "../cluster/own-event.ts"
import type { JobHandle } from "../jobs/handle.ts"
import type { SubmissionFields } from "../jobs/submission/submission.ts"
import type { JobView } from "../jobs/view.ts"
import type { DurationInput } from "../options/duration.ts"
import type { Headers } from "../protocol/message.ts"
import type { AnyActor, ChildActorHandle } from "./actor-handle.ts"

/** One attempt of one job, as its handler sees it. `Use` is what the actor's `start` returned. */
export interface Job<Use = unknown> {
  readonly id: string
  /** 1, 2, 3 …: for people. Grows with every attempt, also after a worker died. */
  readonly attempt: number
  /** Grows when the job is run again by hand. */
  readonly run: number
  /** Retries that the application asked for, so far. */
  readonly retries: number
  /** Name of the actor whose handler this is. */
  readonly actorName: string
  readonly method: string
  readonly queue: string
  /** How it stands: `started` in the handler; in its hooks, what the attempt has come to. */
  readonly state: JobState
  /** Id of the job that it follows, or that submitted it; `undefined` when nobody did. */
  readonly parentId: string | undefined
  /** Id of the job that it all began with, its own included. A sender of another kind may not say it: `undefined`. */
  readonly rootId: string | undefined
  /** Ids of the jobs that it was submitted to run after; most often none. */
  readonly after: ReadonlyArray<string>
  /** Fires at the soft time limit, at the hard one, when the job is cancelled, and when the worker must stop now. */
  readonly signal: AbortSignal
  /** When the hard time limit ends this attempt, in milliseconds since the epoch. */
  readonly deadline: number
  readonly headers: Headers
  readonly meta: Readonly<Record<string, unknown>>
  /** What the actor's `start` returned. */
  readonly use: Use
  readonly log: JobLog
  /**
   * Says how far the work is: `fraction` from 0 to 1 (clamped), `detail` any JSON value. Cheap: written a few times a
   * second at most, the last value wins. A detail of more than 16,384 characters of JSON is cut to its beginning.
   */
  progress(fraction: number, detail?: unknown): void
  /**
   * Tells an event of the application, `order-shipped`, with the job's id as `uuid`: best effort, to whoever listens now.
   * The type is `category-action` in lower case, with another category than `task` and `worker`; the fields are JSON of 64 KiB at
   * most. Throws `CallboardError` `invalid-input`, naming the field.
   */
  event(type: string, fields?: OwnEventFields): void
  /** Submits another task, as a child of this one: sets `parentId` and `rootId`. */
  submit(task: string, fields?: SubmissionFields): Promise<JobHandle>
  /** A typed handle of an actor, `job.actor<typeof text>("text")`, that submits as {@link submit} does. Its module is not loaded. */
  actor<A extends AnyActor>(name: A["name"]): ChildActorHandle<A>
  /** The record of the job that `parentId` names; `undefined` when there is none, or when it is not kept (any more). */
  parent(): Promise<JobView | undefined>
  /** Ends this attempt and asks for another: `throw job.retry({ after: "10s" })`. Counts as a retry. */
  retry(options?: { readonly after?: DurationInput; readonly cause?: unknown }): Error
}

/** The states of a job that is in the hands of a worker. */
export type JobState = "started" | "succeeded" | "failed" | "cancelled"

/** Log lines of the logger `callboard.job`, which carry the job's id, task, method, queue and attempt. */
export interface JobLog {
  debug(message: string, fields?: Readonly<Record<string, unknown>>): void
  info(message: string, fields?: Readonly<Record<string, unknown>>): void
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void
  error(message: string, fields?: Readonly<Record<string, unknown>>): void
}
