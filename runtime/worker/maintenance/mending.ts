/**
 * Posts what somebody who died could not post any more: a job that is run again, or need not wait for others any more, has
 * its record first and its task after it, where a transport cannot store both at once. The record holds all that the task
 * is made of.
 */
import { Result } from "effect"
import type { Connection } from "../../connection/connection.ts"
import { postingOf } from "../../protocol/headers.ts"

const SLICE = 100

/** Looks at records that were stored at `before` (milliseconds since the epoch) or earlier; several may do it at once. */
export const mend = async ({ jobs }: Connection, before: number): Promise<void> => {
  for (const id of (await jobs.orphans?.(before, SLICE)) ?? []) {
    const found = await jobs.find(id)
    if (found === undefined) continue
    const { record, revision } = found
    const { message, queue } = record
    if ((record.state !== "queued" && record.state !== "scheduled") || message === undefined) continue
    const posting = postingOf(message, queue)
    // The same change once more: a conflict if anybody has gone on with the job, and the same publish key if not.
    if (Result.isSuccess(posting)) await jobs.decide([{ id, expect: revision, record, post: [posting.success] }])
  }
}
