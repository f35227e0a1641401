import * as Schema from "effect/Schema"
import type { Connection } from "../connection/connection.ts"
import { checkSignal, optionsChecker } from "../options/check.ts"
import { milliseconds } from "../options/duration.ts"
import { refuseUnknown } from "../options/refuse.ts"
import { type CancelOptions, cancelJob } from "./commands/cancel.ts"
import { type DeleteOptions, deleteJob } from "./commands/delete.ts"
import { patchMeta } from "./commands/meta.ts"
import { type RetryOptions, rerunJob } from "./commands/rerun.ts"
import { jobDetails } from "./details.ts"
import type { JobEvent } from "./lists.ts"
import type { Receipt } from "./receipt.ts"
import { findRecord, goneError, waitForEnd } from "./tracking/finding.ts"
import { followJob } from "./tracking/following.ts"
import { outcomesOf } from "./tracking/history.ts"
import { type Outcome, outcomeInCode, outcomeOf, valueOf } from "./tracking/outcome.ts"
import { type JobView, jobView, type RunView, runView } from "./view.ts"

/** A job by its id. Nothing is asked of the transport until a method is called. */
export interface JobHandle<R = unknown> {
  readonly id: string
  /** The job as it is now, with its result in the form that HTTP shows. Fails with `CallboardError` `not-found`, and `gone` once it is deleted or not kept any more. */
  find(): Promise<JobView>
  /**
   * Waits for the end of the job and resolves with its result, also while the transport cannot be reached. Fails with `JobFailed`, `JobCancelled`, `JobExpired`,
   * `ResultGone`, and with `WaitTimeout` while the job goes on.
   *
   * @example
   * ```ts
   * const job = await client.submit("orders.total", { input: { items: ["tea"] } })
   * const total = await job.result({ timeout: "30 seconds" })
   * ```
   */
  result(options?: WaitOptions): Promise<R>
  /** Waits for the end of the job and resolves with its outcome, as a union by `state`. Fails with `WaitTimeout`. */
  outcome(options?: WaitOptions): Promise<Outcome<R>>
  /**
   * How the last ten runs ended, newest first, with their results in the form that HTTP shows. A job that runs once has one
   * once it has ended. Fails with `not-found`, and `gone`.
   */
  results(options?: ResultsOptions): Promise<ReadonlyArray<RunView>>
  /**
   * The job's transitions and progress: first those so far (after `lastEventId`, if given), then live, until the job ends.
   * Fails with `not-found`.
   */
  events(options?: { readonly lastEventId?: string; readonly signal?: AbortSignal }): AsyncIterable<JobEvent>
  /** Cancels the job. Fails with `already-terminal`. */
  cancel(options?: CancelOptions): Promise<JobView>
  /**
   * Runs the ended job again, as its next run. Fails with `job-exists` before it has ended, and `unsupported` where its
   * input is not kept.
   */
  retry(options?: RetryOptions): Promise<JobView>
  /**
   * Changes the meta data of the job by a merge patch (RFC 7396): fields are set, `null` removes one. The handler sees it in its
   * next attempt; where it changes the same field while it runs, the value that is given here stays. Fails with
   * `invalid-input`, `not-found`, and `gone`.
   */
  patchMeta(patch: Readonly<Record<string, unknown>>): Promise<JobView>
  /** Deletes the record of the job; if it waits, it will not run. Fails with `job-exists` while it runs. */
  delete(options?: DeleteOptions): Promise<void>
}

export interface WaitOptions {
  /** Longest wait: seconds, or text such as `"1 minute"`. Defaults to no bound. */
  readonly timeout?: number | string
  readonly signal?: AbortSignal
}

export interface ResultsOptions {
  /** How long to wait for the first result where there is none: seconds, or text such as `"1 minute"`. Defaults to 0. */
  readonly wait?: number | string
  readonly signal?: AbortSignal
}

/** The handle of a job that was just submitted. */
export interface SubmittedJob<R = unknown> extends JobHandle<R> {
  readonly receipt: Receipt
}

const WAIT = { timeout: true, signal: true } satisfies Record<keyof WaitOptions, true>
const RESULTS = { wait: true, signal: true } satisfies Record<keyof ResultsOptions, true>
const flag = Schema.optionalKey(Schema.Boolean)
const checkCancel = optionsChecker(
  { terminate: flag, release: flag } satisfies Record<keyof CancelOptions, Schema.Top>,
  "cancel()",
)
const checkRetry = optionsChecker({ from: Schema.optionalKey(Schema.Literal("start")) }, "retry()")
const checkDelete = optionsChecker({ dependents: flag } satisfies Record<keyof DeleteOptions, Schema.Top>, "delete()")
const EVENTS = { lastEventId: true, signal: true } as const

/** How long a call waits for the end of a job, in milliseconds. Fails with `invalid-input`. */
export const timeoutOf = (options: WaitOptions, call: string): number => {
  refuseUnknown(options, WAIT, call)
  const { timeout, signal } = options
  if (signal !== undefined) checkSignal(signal)
  return timeout === undefined ? Number.POSITIVE_INFINITY : milliseconds("timeout", timeout)
}

/** How long a call waits for the first result of a job, in milliseconds. Fails with `invalid-input`. */
export const resultsWaitOf = (options: ResultsOptions): number => {
  refuseUnknown(options, RESULTS, "results()")
  if (options.signal !== undefined) checkSignal(options.signal)
  return milliseconds("wait", options.wait ?? 0)
}

/** `isNew`: whether the job was submitted just now. */
export const jobHandle = <R>(connection: Connection, id: string, isNew = () => false): JobHandle<R> => {
  const end = async (call: string, options: WaitOptions = {}): Promise<Outcome> => {
    const record = await waitForEnd(connection, id, timeoutOf(options, call), options.signal, isNew())
    return outcomeInCode(outcomeOf(record) ?? { state: "gone" })
  }
  return {
    id,
    find: async () => {
      const { record } = await findRecord(connection, id)
      if (record.tombstone) throw goneError(id)
      return jobDetails(connection.store, record)
    },
    results: async (options = {}) =>
      (await outcomesOf(connection, id, resultsWaitOf(options), options.signal)).map(runView),
    // The caller's type says what the method returned.
    result: async (options) => valueOf(id, await end("result()", options)) as R,
    outcome: async (options) => (await end("outcome()", options)) as Outcome<R>,
    events: (options = {}) => {
      refuseUnknown(options, EVENTS, "events()")
      if (options.signal !== undefined) checkSignal(options.signal)
      return followJob(connection, id, options)
    },
    cancel: async (options = {}) => {
      checkCancel(options)
      return jobView(await cancelJob(connection, id, options))
    },
    retry: async (options = {}) => {
      checkRetry(options)
      return jobView(await rerunJob(connection, id, undefined, options))
    },
    patchMeta: async (patch) => jobView(await patchMeta(connection, id, patch)),
    delete: async (options = {}) => {
      checkDelete(options)
      await deleteJob(connection, id, options)
    },
  }
}
