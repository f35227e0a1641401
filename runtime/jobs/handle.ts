import type { Connection } from "../connection/connection.ts"
import { milliseconds } from "../options/duration.ts"
import { type CancelOptions, cancelJob } from "./commands/cancel.ts"
import { type DeleteOptions, deleteJob } from "./commands/delete.ts"
import { rerunJob } from "./commands/rerun.ts"
import type { Receipt } from "./receipt.ts"
import { findRecord } from "./tracking/finding.ts"
import { followJob, type JobEvent } from "./tracking/following.ts"
import { type Outcome, outcomeOf, valueOf } from "./tracking/outcome.ts"
import { waitForEnd } from "./tracking/waiting.ts"
import { type JobView, jobView } from "./view.ts"

/** A job by its id. Nothing is asked of the transport until a method is called. */
export interface JobHandle<R = unknown> {
  readonly id: string
  /** Its record. Fails with `CallboardError` `not-found`. */
  find(): Promise<JobView>
  /** Waits for the end and returns the result. Fails with `JobFailed | JobCancelled | JobExpired | ResultGone | WaitTimeout`. */
  result(options?: WaitOptions): Promise<R>
  /** Waits for the end and tells how it came, as a union. Fails with `WaitTimeout`. */
  outcome(options?: WaitOptions): Promise<Outcome<R>>
  /** Its transitions and progress, replayed and then live, until it ends. */
  events(options?: { readonly lastEventId?: string; readonly signal?: AbortSignal }): AsyncIterable<JobEvent>
  /** Cancels it. Fails with `already-terminal`. */
  cancel(options?: CancelOptions): Promise<JobView>
  retry(): Promise<JobView>
  /** Forgets it. Fails with `job-exists` while it runs. */
  delete(options?: DeleteOptions): Promise<void>
}

export interface WaitOptions {
  /** Longest wait: seconds, or text such as `"1 minute"`. Defaults to no bound. */
  readonly timeout?: number | string
  readonly signal?: AbortSignal
}

/** The handle of a job that was just submitted. */
export interface SubmittedJob<R = unknown> extends JobHandle<R> {
  readonly receipt: Receipt
}

export const jobHandle = <R>(connection: Connection, id: string): JobHandle<R> => {
  const end = (options: WaitOptions) => waitForEnd(connection, id, timeoutOf(options), options.signal)
  return {
    id,
    find: async () => jobView((await findRecord(connection, id)).record),
    // The record holds what the method returned, in its JSON form: the caller's type says what that is.
    result: async (options = {}) => valueOf(id, outcomeOf(await end(options)) ?? { state: "gone" }) as R,
    outcome: async (options = {}) => (outcomeOf(await end(options)) ?? { state: "gone" }) as Outcome<R>,
    events: (options = {}) => followJob(connection, id, options),
    cancel: async (options = {}) => jobView(await cancelJob(connection, id, options)),
    retry: async () => jobView(await rerunJob(connection, id)),
    delete: (options = {}) => deleteJob(connection, id, options),
  }
}

const timeoutOf = ({ timeout }: WaitOptions): number =>
  timeout === undefined ? Number.POSITIVE_INFINITY : milliseconds("timeout", timeout)
