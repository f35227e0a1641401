/**
 * How the runs of a job ended: the last ten. The outcome of a run is in the job's record until the next run begins; then it
 * goes into one entry of the store, so that a job that runs once costs nothing more.
 */
import * as Schema from "effect/Schema"
import { StoreEntry } from "../../async/store-entry.ts"
import type { Connection } from "../../connection/connection.ts"
import { WaitTimeout } from "../../errors.ts"
import type { JobError, JobRecord, RunOutcome } from "../../protocol/record.ts"
import { MAX_OUTCOMES, outcomeOfRun } from "../../protocol/record.ts"
import { TransportError } from "../../transport/mod.ts"
import type { Store } from "../../transport/store.ts"
import { findRecord, goneError, isAway, waitForEnd } from "./finding.ts"

const ErrorSchema: Schema.Codec<JobError, JobError> = Schema.Struct({
  name: Schema.String,
  message: Schema.String,
  reason: Schema.String,
  traceback: Schema.optionalKey(Schema.String),
  field: Schema.optionalKey(Schema.String),
  cause: Schema.optionalKey(Schema.Struct({ name: Schema.String, message: Schema.String })),
  errors: Schema.optionalKey(Schema.Array(Schema.Struct({ name: Schema.String, message: Schema.String }))),
})

const OutcomeSchema = Schema.Struct({
  run: Schema.Int,
  type: Schema.Literals(["SUCCESSFUL", "FAILED", "STOPPED", "CANCELLED", "EXPIRED"]),
  startedAt: Schema.optionalKey(Schema.Finite),
  endedAt: Schema.Finite,
  ranMs: Schema.optionalKey(Schema.Finite),
  attempt: Schema.Int,
  worker: Schema.optionalKey(Schema.String),
  execution: Schema.optionalKey(Schema.String),
  result: Schema.optionalKey(Schema.Unknown),
  omitted: Schema.optionalKey(Schema.Literal(true)),
  error: Schema.optionalKey(ErrorSchema),
})

const HISTORY = new StoreEntry("history/", Schema.Struct({ outcomes: Schema.Array(OutcomeSchema) }))

/** Outcomes of several places, newest first, each run once: of the same run the first one that is given. */
const merged = (outcomes: ReadonlyArray<RunOutcome>): ReadonlyArray<RunOutcome> => {
  const byRun = new Map<number, RunOutcome>()
  for (const outcome of outcomes) if (!byRun.has(outcome.run)) byRun.set(outcome.run, outcome)
  return [...byRun.values()].sort((a, b) => b.run - a.run).slice(0, MAX_OUTCOMES)
}

/**
 * Puts outcomes of earlier runs into the history of a job whose next run begins; putting them there twice does no harm.
 * `keepMs`: how long outcomes are kept from now on; negative is for ever. Fails as the store does.
 */
export const addToHistory = async (
  store: Store,
  { id, run, earlier = [] }: Pick<JobRecord, "id" | "run" | "earlier">,
  keepMs: number,
): Promise<void> => {
  const changed = await HISTORY.change(store, id, (found) => {
    // A job that had this id before may have left outcomes: they have runs that this job has not come to.
    const before = (found?.value?.outcomes ?? []).filter((outcome) => outcome.run < run)
    const value = { outcomes: merged([...earlier, ...before]) }
    return keepMs < 0 ? { value } : { value, ttlMs: Math.max(keepMs, 1_000) }
  })
  if (changed === "conflict")
    throw new TransportError("unavailable", `the history of job ${id} keeps changing; try again`)
}

/** Far longer than a deletion takes. */
const LAPSE_MS = 3_600_000

/**
 * Lets the history of a job lapse that is about to be deleted: a process that dies right after the deletion leaves none behind.
 * Where a worker starts the job at this very moment, so that it is not deleted, its earlier runs are forgotten all the same.
 */
export const lapseHistory = async (store: Store, { id, run }: Pick<JobRecord, "id" | "run">): Promise<void> => {
  if (run <= 1) return
  await HISTORY.change(store, id, (found) =>
    found?.value === undefined ? "keep" : { value: found.value, ttlMs: LAPSE_MS },
  )
}

/** Removes the history of a job that is deleted. A job that has run once has none. */
export const forgetHistory = async (store: Store, { id, run }: Pick<JobRecord, "id" | "run">): Promise<void> => {
  if (run > 1) await store.write([HISTORY.remove(id)])
}

/**
 * How the last runs of a job ended, newest first. A job of which no run has ended has none; `waitMs`: how long to wait for
 * the first. Fails with `not-found` and `gone`.
 */
export const outcomesOf = async (
  connection: Connection,
  id: string,
  waitMs = 0,
  signal?: AbortSignal,
): Promise<ReadonlyArray<RunOutcome>> => {
  const known = await outcomesNow(connection, id).catch((cause: unknown) => {
    if (waitMs > 0 && isAway(cause)) return []
    throw cause
  })
  if (known.length > 0 || waitMs <= 0) return known
  try {
    await waitForEnd(connection, id, waitMs, signal)
  } catch (cause) {
    if (!(cause instanceof WaitTimeout) && !signal?.aborted) throw cause
    if (signal?.aborted) return known
  }
  return outcomesNow(connection, id)
}

const outcomesNow = async (connection: Connection, id: string): Promise<ReadonlyArray<RunOutcome>> => {
  const { record } = await findRecord(connection, id)
  if (record.tombstone) throw goneError(id)
  const current = outcomeOfRun(record)
  const stored = record.run > 1 ? (await HISTORY.get(connection.store, id))?.value?.outcomes : undefined
  const before = [...(record.earlier ?? []), ...(stored ?? [])].filter(({ run }) => run < record.run)
  return merged([...(current === undefined ? [] : [current]), ...before])
}
