/** The handle of a job over a connection to the transport. */
import type { Connection } from "../connection/connection.ts"
import { cancelJob } from "../jobs/commands/cancel.ts"
import { deleteJob } from "../jobs/commands/delete.ts"
import { patchMeta } from "../jobs/commands/meta.ts"
import { signalJob } from "../jobs/commands/signal.ts"
import { jobDetails } from "../jobs/details.ts"
import {
  HANDLE,
  type HandleActions,
  handleOf,
  type JobHandle,
  resultsWaitMsOf,
  timeoutMsOf,
  type WaitOptions,
} from "../jobs/handle.ts"
import { findRecord, goneError, waitForEnd } from "../jobs/tracking/finding.ts"
import { followJob } from "../jobs/tracking/following.ts"
import { outcomesOf } from "../jobs/tracking/history.ts"
import { type Outcome, outcomeOf, valueOf } from "../jobs/tracking/outcome.ts"
import { outcomeInCode } from "../jobs/tracking/outcome-in-code.ts"
import { jobView, runView } from "../jobs/view.ts"
import { retryJob } from "../steps/rerun.ts"

interface Connected {
  readonly connection: Connection
  /** Whether the job was submitted just now. */
  readonly isNew: () => boolean
}

const end = async ({ connection, isNew }: Connected, id: string, options: WaitOptions): Promise<Outcome> => {
  const record = await waitForEnd(connection, id, timeoutMsOf(options), options.signal, isNew())
  return outcomeInCode(outcomeOf(record) ?? { state: "gone" })
}

/** What the methods of a handle do over a connection. */
export const CONNECTED: HandleActions<Connected> = {
  find: async ({ connection }, id) => {
    const { record } = await findRecord(connection, id)
    if (record.tombstone) throw goneError(id)
    return jobDetails(connection.store, record)
  },
  result: async (connected, id, options) => valueOf(id, await end(connected, id, options)),
  outcome: end,
  results: async ({ connection }, id, options) =>
    (await outcomesOf(connection, id, resultsWaitMsOf(options), options.signal)).map(runView),
  cancel: async ({ connection }, id, options) => jobView(await cancelJob(connection, id, options)),
  retry: async ({ connection }, id, options) => jobView(await retryJob(connection, id, options)),
  patchMeta: async ({ connection }, id, patch) => jobView(await patchMeta(connection, id, patch)),
  signal: async ({ connection }, id, signal) => {
    await signalJob(connection, id, signal)
  },
  delete: async ({ connection }, id, options) => {
    await deleteJob(connection, id, options)
  },
}

/** `isNew`: whether the job was submitted just now. */
export const jobHandle = <R>(connection: Connection, id: string, isNew = () => false): JobHandle<R> =>
  Object.assign(handleOf<Connected, R>(CONNECTED, { connection, isNew }, id), {
    events: (options?: unknown) => followJob(connection, id, HANDLE.events.parse(options, id)),
  })
