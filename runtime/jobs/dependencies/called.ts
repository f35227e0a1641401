/** The jobs that a handler has called, for whose end its job waits. */
import type { Connection } from "../../connection/connection.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import { afterEnds, memberOutcomesOf } from "./ended.ts"
import { findParentOutcomes, moveOn } from "./release.ts"

/** The records of those of these jobs that have ended; `null`: the record is not kept any more. Fails as the transport does. */
export const endsOf = async (
  { jobs }: Pick<Connection, "jobs">,
  ids: ReadonlyArray<string>,
): Promise<ReadonlyMap<string, JobRecord | null>> => {
  const found = await Promise.all(ids.map((id) => jobs.find(id)))
  const ends = new Map<string, JobRecord | null>()
  for (const [at, id] of ids.entries()) {
    const record = found[at]?.record
    if (record === undefined) ends.set(id, null)
    else if (record.tombstone || isTerminal(record.state)) ends.set(id, record)
  }
  return ends
}

/**
 * Lets a job that was suspended just now continue if a job that it has called ended before. Never rejects: the sweep does the
 * same later.
 */
export const wakeAfter = async (connection: Connection, id: string, jobs: ReadonlyArray<string>): Promise<void> => {
  try {
    const failed = await moveOn(connection, new Map([[id, await findParentOutcomes(connection, jobs)]]))
    await afterEnds(connection, new Map(), memberOutcomesOf(failed))
  } catch {
    // The sweep finds the edges of the job.
  }
}
