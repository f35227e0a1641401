/** What workers do beside their work, in slices, now and then. Several may do it at once: whoever is first records it. */

import { Result } from "effect"
import type { Connection } from "../../connection/connection.ts"
import { expire, isOverdue } from "../../jobs/tracking/finding.ts"
import type { Log } from "../../log/log.ts"
import { postingOf } from "../../protocol/headers.ts"
import type { Dependents } from "./dependents.ts"
import type { LostJobs } from "./lost-jobs.ts"

const EVERY_MS = 10_000
const SLICE = 100

/** Nobody takes longer from a record to its task who is still alive. */
const ORPHANED_MS = 15_000

interface MaintenanceParts {
  readonly connection: Connection
  readonly lost: LostJobs
  readonly dependents: Dependents
  readonly log: Log
}

/** Records as expired what waits past its time on a queue that nobody pulls. */
const sweep = async ({ connection, dependents }: MaintenanceParts, now: number): Promise<void> => {
  const { jobs } = connection
  for (const id of (await jobs.waiting?.({ expiredBy: now }, SLICE)) ?? []) {
    const found = await jobs.find(id)
    if (found === undefined || !isOverdue(found.record, now)) continue
    dependents.stored((await expire(connection, found)).record)
  }
}

/** Starts maintaining; returns how to stop. */
export const maintain = (upkeep: MaintenanceParts): (() => void) => {
  const { connection, lost, dependents, log } = upkeep
  let busy = false
  const trying = (what: string, task: Promise<void>): Promise<void> =>
    task.catch((cause: unknown) => log.debug(what, { cause: cause instanceof Error ? cause.message : String(cause) }))
  const round = async () => {
    if (busy) return
    busy = true
    const now = Date.now()
    await trying("expired tasks could not be swept", sweep(upkeep, now))
    await trying("lost tasks could not be posted again", republishOrphans(connection, now - ORPHANED_MS))
    await trying("jobs without a worker could not be ended", lost.look(performance.now()))
    await trying("jobs that wait for others could not be looked at", dependents.look())
    busy = false
  }
  const timer = setInterval(() => void round(), EVERY_MS)
  return () => clearInterval(timer)
}

/** Looks at records that were stored at `before` (milliseconds since the epoch) or earlier; several may do it at once. */
export const republishOrphans = async ({ jobs }: Connection, before: number): Promise<void> => {
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
