/** Finds a job's record, and judges its expiry: whoever looks first at a job that waits past its time records that. */
import type { Connection } from "../../connection/connection.ts"
import { CallboardError } from "../../errors.ts"
import { isExpired } from "../../protocol/expiry.ts"
import { isId } from "../../protocol/name.ts"
import { endedOutside } from "../../protocol/outside.ts"
import { type JobRecord, step } from "../../protocol/record.ts"
import type { Found } from "../../transport/lift/transport.ts"

/** A watch is best effort: a waiting reader looks for itself this often. */
export const POLL_MS = 5_000

/**
 * A run is reported when it has lasted for a moment: until then a job that started just in time looks as if it waited.
 * Its worker judges expiry to the millisecond; who only looks at the job waits for this much longer.
 */
const REPORT_DELAY_MS = 500

/** Nobody knows the job. */
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

/** Whether a job waits past its time, as far as somebody can tell who does not hold its task. */
export const isOverdue = ({ state, expiresAt }: JobRecord, now: number): boolean =>
  (state === "queued" || state === "scheduled" || state === "deferred") && isExpired(expiresAt, now, REPORT_DELAY_MS)

/** Records that a waiting job is past its time. Whoever notices first does it: a worker, a reader or maintenance. */
export const expire = async (connection: Connection, found: Found): Promise<Found> => {
  const now = Date.now()
  const record = endedOutside(step(found.record, { at: now, state: "expired" }), now, connection.keepFailed)
  const [changed] = await connection.jobs.decide([{ id: record.id, expect: found.revision, record, withdraw: true }])
  if (changed?.status === "changed") return { record, revision: found.revision }
  return (await connection.jobs.find(record.id)) ?? found
}
