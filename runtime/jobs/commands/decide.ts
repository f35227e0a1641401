/** Decides about a job from outside: a compare-and-set on its record, tried again when outrun. */
import type { Connection } from "../../connection/connection.ts"
import { CallboardError } from "../../errors.ts"
import type { JobRecord } from "../../protocol/record.ts"
import type { Decision, Found } from "../../transport/lift/transport.ts"
import { removeEdges } from "../dependencies/edges.ts"
import { findRecord } from "../tracking/finding.ts"

/** Somebody else may decide about the same job at the same time; more often than this in a row is not chance. */
const TRIES = 10

/** Resolves with the record as it is then. `change` says nothing where the record is as it shall be. */
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
    if (changed?.status === "changed") return wanted.record
    if (changed?.status === "failed") throw changed.error
  }
  throw new CallboardError("internal", `job ${id} changes too fast to decide about; try again`, { id })
}

/** Nothing can be decided about a job of which only the tombstone is left. */
export const goneError = (id: string): CallboardError =>
  new CallboardError("gone", `job ${id} is not kept any more`, { id })

/** Removes its edges: best effort, since a sweep removes what is left. */
export const removeOwnEdges = async ({ store }: Connection, { id, after }: JobRecord): Promise<void> => {
  const edges = after?.waiting?.map((parent) => ({ parent, child: id })) ?? []
  await removeEdges(store, edges).catch(() => undefined)
}
