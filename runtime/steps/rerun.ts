/** Runs an ended job again from one of its durable steps. */
import * as Result from "effect/Result"
import type { Connection } from "../connection/connection.ts"
import { CallboardError } from "../errors.ts"
import type { Check } from "../jobs/commands/decide.ts"
import { type RetryOptions, rerunJob, whyNotRerun } from "../jobs/commands/rerun.ts"
import { findRecord } from "../jobs/tracking/finding.ts"
import { refuseInput } from "../options/refuse.ts"
import { type FromStepHeader, parseTask } from "../protocol/headers.ts"
import type { JobRecord } from "../protocol/record.ts"
import { fold } from "./fold.ts"
import { journalPrefix } from "./page.ts"
import { readJournal, readKept } from "./pages.ts"

/**
 * Runs an ended job again as {@link rerunJob} does; with `fromStep` it keeps only the steps that had ended before that one.
 * Fails with `invalid-input` for a step that the job does not have, or if its steps were reverted.
 */
export const retryJob = async (
  connection: Connection,
  id: string,
  { from, fromStep }: RetryOptions = {},
): Promise<JobRecord> => {
  if (fromStep === undefined) return rerunJob(connection, id, undefined, from === undefined ? {} : { from })
  if (from !== undefined) refuseInput("fromStep", "cannot be combined with from: name a step or the start")
  const { record } = await findRecord(connection, id)
  const refused = whyNotRerun(record)
  if (refused !== undefined) throw refused
  const isSameRun: Check = ({ run }) => {
    if (run !== record.run) throw new CallboardError("job-exists", `job ${id} was run again meanwhile`, { id })
  }
  return rerunJob(connection, id, isSameRun, { fromStep: await placeOf(connection, record, fromStep) })
}

/** Most steps that a refusal names. */
const NAMED = 20

/** Where the next run of a job begins. */
const placeOf = async (
  { store }: Connection,
  { id, run, message }: JobRecord,
  step: string,
): Promise<FromStepHeader> => {
  const { from = [], fromStep } = message === undefined ? {} : Result.getOrThrow(parseTask(message)).own
  const { entries } = await readJournal(store, journalPrefix(id, run))
  // A run that no worker has begun continues with what it was to keep.
  const kept = entries.length > 0 ? { run, entries } : await readKept(store, id, { from, fromStep })
  const { steps, waits, ending } = fold(kept?.entries ?? [])
  if (ending !== undefined)
    refuseInput("fromStep", `must be absent: job ${id} has reverted steps, or has begun to; retry it without a step`)
  if (kept !== undefined && (steps.has(step) || waits.has(step))) return { run: kept.run, step }
  const names = [
    ...[...steps.values()].sort((one, other) => one.order - other.order).map(({ name }) => name),
    ...waits.keys(),
  ]
  const some = names.slice(0, NAMED).join(", ")
  const left = names.length > NAMED ? ` and ${names.length - NAMED} more` : ""
  return refuseInput(
    "fromStep",
    names.length === 0
      ? `must be absent: job ${id} has no durable steps`
      : `must be a step of job ${id}, not ${step}: it has ${some}${left}`,
  )
}
