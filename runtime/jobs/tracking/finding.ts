/**
 * Finds a job's record, and expires it: the first process that looks at a waiting job past its `expires` records that.
 */
import type { Connection } from "../../connection/connection.ts"
import { CallboardError } from "../../errors.ts"
import { isId } from "../../protocol/name.ts"
import { endedOutside } from "../../protocol/outside.ts"
import { type JobRecord, step } from "../../protocol/record.ts"
import { isExpired } from "../../protocol/time.ts"
import type { Found } from "../../transport/lift/transport.ts"

/** A watch may miss changes, so a caller that waits reads the record this often. */
export const POLL_MS = 5_000

/**
 * A worker reports a run only after a moment, so a job that started just in time still looks queued. The worker judges expiry
 * to the millisecond; every other process allows this much more.
 */
const REPORT_DELAY_MS = 500

/** There is no record of the job. */
export const notFound = (id: string): CallboardError => new CallboardError("not-found", `there is no job ${id}`, { id })

/** Only the tombstone of a job is left. */
export const goneError = (id: string): CallboardError =>
  new CallboardError("gone", `job ${id} ended, and what came of it is not kept any more`, { id })

/** The record of a job, expiry judged. Fails with `not-found`. */
export const findRecord = async (connection: Connection, id: string): Promise<Found> => {
  // No job can have such an id, and a transport need not be able to look for it.
  const found = isId(id) ? await connection.jobs.find(id) : undefined
  if (found === undefined) throw notFound(id)
  return isOverdue(found.record, Date.now()) ? expire(connection, found) : found
}

/** Whether a job waits past its `expires`, as far as a process can tell that does not hold its task. */
export const isOverdue = ({ state, expiresAt }: JobRecord, now: number): boolean =>
  (state === "queued" || state === "scheduled" || state === "deferred") && isExpired(expiresAt, now, REPORT_DELAY_MS)

/**
 * Records that a waiting job has expired. Done by the first process that notices: a worker, a client or maintenance.
 */
export const expire = async (connection: Connection, found: Found): Promise<Found> => {
  const now = Date.now()
  const record = endedOutside(step(found.record, { at: now, state: "expired" }), now, connection.keepFailed)
  const [changed] = await connection.jobs.decide([{ id: record.id, expect: found.revision, record, withdraw: true }])
  if (changed?.status === "decided") return { record, revision: found.revision }
  return (await connection.jobs.find(record.id)) ?? found
}
