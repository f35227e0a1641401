/**
 * Regular maintenance, in small slices, by every worker. Several workers may do the same at once; the first one records
 * it.
 */

import * as Result from "effect/Result"
import type { PeerWorkers } from "../../cluster/peer-workers.ts"
import type { Connection } from "../../connection/connection.ts"
import { postMissing } from "../../jobs/outcome/follow-ups.ts"
import { expire, isOverdue } from "../../jobs/tracking/finding.ts"
import { reportUnreported } from "../../jobs/tracking/unreported.ts"
import type { Log } from "../../log/log.ts"
import { postingOf } from "../../protocol/headers.ts"
import { type JobPosting, publishKey } from "../../protocol/message.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { JournalSweep } from "../../steps/journal-sweep.ts"
import type { ExternalTasks } from "../active-delivery.ts"
import type { Dependents } from "./dependents.ts"
import type { LostJobs } from "./lost-jobs.ts"

const EVERY_MS = 10_000
const SLICE = 100

/**
 * A living process takes less than this from storing a record to publishing its task; a record that is older and has no
 * task is orphaned.
 */
const ORPHANED_MS = 15_000

interface MaintenanceParts {
  readonly connection: Connection
  readonly lost: LostJobs
  readonly dependents: Dependents
  readonly peers: PeerWorkers
  readonly external: Pick<ExternalTasks, "report"> | undefined
  /** The time by the clock of the transport. */
  readonly askTime: () => Promise<number>
  readonly log: Log
}

/** Records jobs as expired whose tasks wait past their expiry on a queue that no worker pulls from. */
const sweep = async ({ connection, dependents }: MaintenanceParts, now: number): Promise<void> => {
  const { jobs } = connection
  for (const id of (await jobs.waiting?.({ expiredBy: now }, SLICE)) ?? []) {
    const found = await jobs.find(id)
    if (found === undefined || !isOverdue(found.record, now)) continue
    dependents.stored((await expire(connection, found)).record)
  }
}

/** Starts the rounds of maintenance. Returns a function that stops them. */
export const maintain = (parts: MaintenanceParts): (() => void) => {
  const { connection, lost, dependents, peers, external, askTime, log } = parts
  const journals = new JournalSweep()
  let isRunning = false
  const trying = (what: string, task: Promise<void>): Promise<void> =>
    task.catch((cause: unknown) => log.debug(what, { cause: cause instanceof Error ? cause.message : String(cause) }))
  const round = async () => {
    if (isRunning) return
    isRunning = true
    await trying(
      "expired tasks could not be swept",
      askTime().then((now) => sweep(parts, now)),
    )
    if (external !== undefined) {
      const tell = reportUnreported(connection, (ended) =>
        external.report(ended, (tasks) => postMissing(connection, tasks)),
      )
      await trying("the outcomes of tasks could not be reported to their submitters", tell)
    }
    const orphans = askTime().then((now) => republishOrphans(connection, now - ORPHANED_MS))
    await trying("lost tasks could not be posted again", orphans)
    await trying("jobs without a worker could not be ended", lost.look(performance.now()))
    await trying("dead workers could not be removed from the list", peers.strikeOff())
    await trying("journals of ended jobs could not be checked", journals.round(connection))
    await trying("jobs that wait for other jobs could not be checked", dependents.look())
    isRunning = false
  }
  const timer = setInterval(() => void round(), EVERY_MS)
  return () => clearInterval(timer)
}

/**
 * Publishes the tasks of jobs whose process died between storing the record and publishing the task: jobs that are run
 * again, or that depend on others no more, where a transport cannot store both at once. The record contains all that
 * its task is made of. Handles records that were stored at `before` (milliseconds since the epoch) or earlier. Several
 * workers may do so at once.
 */
export const republishOrphans = async ({ jobs }: Pick<Connection, "jobs">, before: number): Promise<void> => {
  for (const id of (await jobs.orphans?.(before, SLICE)) ?? []) {
    const found = await jobs.find(id)
    if (found === undefined) continue
    const { record, revision } = found
    if (record.state !== "queued" && record.state !== "scheduled") continue
    const lost = lostTask(record)
    // The same change is written once more. It conflicts if the job has continued since; otherwise the publish key is
    // the same, so that the task is not published twice.
    if (lost !== undefined) await jobs.decide([{ id, expect: revision, record: lost.record, post: [lost.posting] }])
  }
}

/** The task that a waiting record is about, and the record as it was stored; `undefined` where the record does not hold the task. */
const lostTask = (record: JobRecord): { readonly posting: JobPosting; readonly record: JobRecord } | undefined => {
  const { id, run, successor, followUps = [], message, ...kept } = record
  const own = followUps.find((posting) => posting.id === id && publishKey(posting) === successor)
  if (own !== undefined) {
    // State and message of the record that was found are those of an earlier task, which is still in its queue.
    const state = own.due === undefined ? "queued" : "scheduled"
    return { posting: own, record: { ...kept, id, run, successor: publishKey(own), followUps, state } }
  }
  const posting = message === undefined ? undefined : Result.getOrUndefined(postingOf(message, record.queue))
  return posting?.run === run && successor === undefined ? { posting, record } : undefined
}
