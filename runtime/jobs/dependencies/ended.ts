/** What the end of jobs means for others: for those that wait for them, and for the bodies of their chords. */
import type { Connection } from "../../connection/connection.ts"
import { type MemberOutcome, memberOutcomeOf } from "../../protocol/chord.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { countMembers } from "./chords.ts"
import { type ParentOutcomes, release } from "./release.ts"

export const memberOutcomesOf = (records: ReadonlyArray<JobRecord>): ReadonlyArray<MemberOutcome> =>
  records.flatMap((record) => memberOutcomeOf(record) ?? [])

/**
 * Moves on all that waits for jobs that have ended: `endings` are the outcomes of jobs that others wait for, `members` those of
 * members of chords. A job that fails by that has ended as well. Fails as the transport does; the sweep does what was not done.
 */
export const afterEnds = async (
  connection: Connection,
  endings: ParentOutcomes,
  members: ReadonlyArray<MemberOutcome>,
): Promise<void> => {
  for (let known = endings, counted = members; known.size > 0 || counted.length > 0; ) {
    const failed = known.size === 0 ? [] : await release(connection, known)
    const bodies = await countMembers(connection, [...counted, ...memberOutcomesOf(failed)])
    known = new Map(bodies.map(({ id }) => [id, "failed"]))
    counted = memberOutcomesOf(bodies)
  }
}
