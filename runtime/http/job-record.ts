/** The record of a job for the routes: found now, or waited for until the job has ended. */
import * as Result from "effect/Result"
import { WaitTimeout } from "../errors.ts"
import { attemptsOf, inputView, jobDetails, withoutPayload } from "../jobs/details.ts"
import type { JobResult, JobWith } from "../jobs/responses.ts"
import { findRecord, goneError, waitForEnd } from "../jobs/tracking/finding.ts"
import { outcomesOf } from "../jobs/tracking/history.ts"
import { outcomeOf } from "../jobs/tracking/outcome.ts"
import { type JobView, jobView } from "../jobs/view.ts"
import { compact } from "../protocol/compact.ts"
import { parseTask } from "../protocol/headers.ts"
import type { Message } from "../protocol/message.ts"
import type { JobRecord, RunOutcome } from "../protocol/record.ts"
import { isTerminal } from "../protocol/state.ts"
import type { Caller } from "./access.ts"
import { withReadDeadline } from "./limits.ts"
import { linkedJob } from "./linked-job.ts"
import type { HttpContext } from "./route.ts"

/** The record of a job. Fails with `not-found`, and with `gone` when only its tombstone is left. */
export const recordOf = async ({ client }: HttpContext, id: string): Promise<JobRecord> => {
  const { record } = await withReadDeadline(findRecord(client.connection, id))
  if (record.tombstone) throw goneError(id, record)
  return record
}

/**
 * The record of a job once it has ended, or as it is when the wait is over: after `ms`, when the client has gone, or
 * when the service stops. Fails with `not-found` and `gone`.
 */
export const recordAfterWait = async (
  context: HttpContext,
  id: string,
  ms: number,
  client: AbortSignal,
): Promise<JobRecord> => {
  const now = await recordOf(context, id)
  if (ms === 0 || isTerminal(now.state)) return now
  const ended = await withAnySignal([client, context.closing], async (signal) => {
    try {
      return await waitForEnd(context.client.connection, id, ms, signal)
    } catch (cause) {
      if (cause instanceof WaitTimeout || signal.aborted) return undefined
      throw cause
    }
  })
  if (ended?.tombstone) throw goneError(id, ended)
  return ended ?? (client.aborted ? now : await recordOf(context, id))
}

/** The outcomes of the last runs of a job; where there are none yet, the first one is waited for. */
export const resultsAfterWait = async (
  { client, closing }: HttpContext,
  id: string,
  ms: number,
  reader: AbortSignal,
): Promise<ReadonlyArray<RunOutcome>> => {
  const now = await withReadDeadline(outcomesOf(client.connection, id))
  if (now.length > 0 || ms === 0) return now
  return withAnySignal([reader, closing], (signal) => outcomesOf(client.connection, id, ms, signal))
}

/** A job as a caller may see it. */
export const shownTo = (caller: Caller, view: JobView): JobView => {
  const shown = caller.may("payload") ? view : withoutPayload(view)
  return caller.link === undefined ? shown : linkedJob(shown)
}

/** A single job, with what its task holds, as a caller may see it. */
export const detailsFor = async ({ client }: HttpContext, caller: Caller, record: JobRecord): Promise<JobView> => {
  // A link shows nothing of the task, so that it is not read.
  if (caller.link !== undefined) return shownTo(caller, jobView(record))
  return caller.may("payload")
    ? withReadDeadline(jobDetails(client.connection.store, record))
    : withoutPayload(jobView(record), record)
}

/** {@link detailsFor}, with the parts that were asked for. */
export const detailsWith = async (
  context: HttpContext,
  caller: Caller,
  record: JobRecord,
  parts: ReadonlyArray<"input" | "attempts">,
): Promise<typeof JobWith.Type> => {
  const view = await detailsFor(context, caller, record)
  const { input: _input, ...rest } = view
  const input = parts.includes("input") ? inputView(view, record) : undefined
  const retry = parts.includes("input") && record.message !== undefined ? retryOf(record.message) : undefined
  return {
    ...(parts.includes("input") ? rest : view),
    ...compact({ input, retry }),
    ...(parts.includes("attempts") ? { attempts: attemptsOf(record) } : {}),
  }
}

const retryOf = (message: Message): Readonly<Record<string, unknown>> | undefined => {
  const task = Result.getOrUndefined(parseTask(message))
  return task?.own.retry === undefined ? undefined : { ...task.own.retry }
}

/** How a job ended; `undefined` while it goes on. */
export const jobOutcome = (record: JobRecord): Omit<typeof JobResult.Type, "id"> | undefined => {
  const outcome = outcomeOf(record)
  return outcome === undefined || outcome.state === "gone" ? undefined : outcome
}

/**
 * Runs `work` with a signal that fires with the first of `signals`. Unlike `AbortSignal.any` it stops listening when the
 * work is over: the signal of a service outlives each request, and would collect their listeners.
 */
export const withAnySignal = async <T>(
  signals: ReadonlyArray<AbortSignal>,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> => {
  const first = new AbortController()
  const fire = () => first.abort()
  for (const signal of signals) {
    if (signal.aborted) fire()
    else signal.addEventListener("abort", fire)
  }
  try {
    return await work(first.signal)
  } finally {
    for (const signal of signals) signal.removeEventListener("abort", fire)
  }
}
