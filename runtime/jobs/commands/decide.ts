/** Changes the record of a job from outside of a worker, by compare-and-set, with another try after each conflict. */
import type { Connection } from "../../connection/connection.ts"
import { CallboardError } from "../../errors.ts"
import type { JobRecord } from "../../protocol/record.ts"
import type { Decision, Found } from "../../transport/lift/transport.ts"
import { removeEdges } from "../dependencies/edges.ts"
import { findRecord } from "../tracking/finding.ts"

/** Most tries. A worker or another client may change the record at the same time, but hardly this often in a row. */
const TRIES = 10

/** Resolves with the record after the change. `change` returns `undefined` where the record needs none. */
export const decide = async (
  connection: Connection,
  id: string,
  change: (found: Found) => Omit<Decision, "id" | "expect"> | undefined,
): Promise<JobRecord> => {
  for (let tried = 0; tried < TRIES; tried++) {
    const found = await findRecord(connection, id)
    const wanted = change(found)
    if (wanted === undefined) return found.record
    const [changed] = await connection.jobs.decide([{ id, expect: found.revision, ...wanted }])
    if (changed?.status === "decided") return wanted.record
    if (changed?.status === "failed") throw changed.error
  }
  throw new CallboardError("internal", `job ${id} changes too fast to decide about; try again`, { id })
}

/** The error of a decision about a job of which only the tombstone is left. */
export const goneError = (id: string): CallboardError =>
  new CallboardError("gone", `job ${id} is not kept any more`, { id })

/**
 * Removes the edges of a job that waits for no other job any more: best effort, since the sweep removes what is left.
 */
export const removeOwnEdges = async ({ store }: Connection, { id, after }: JobRecord): Promise<void> => {
  const edges = after?.waiting?.map((parent) => ({ parent, child: id })) ?? []
  await removeEdges(store, edges).catch(() => undefined)
}
