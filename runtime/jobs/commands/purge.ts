/** Empties a queue: each job that waits in it is cancelled, so that no caller waits for its result for ever. */
import { resumeQueue } from "../../cluster/pausing.ts"
import type { Connection } from "../../connection/connection.ts"
import { CallboardError } from "../../errors.ts"
import { refuseUnknown } from "../../options/refuse.ts"
import { endedOutside } from "../../protocol/outside.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { step } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import { afterEnds, memberOutcomesOf } from "../dependencies/ended.ts"
import { checkedQueue } from "../tracking/waiting.ts"
import { announceCancellation, toBeUndone } from "./cancel.ts"
import { decide } from "./decide.ts"
import { deleteJob } from "./delete.ts"

export interface PurgeOptions {
  /** Deletes the records of the jobs as well. Defaults to false. */
  readonly forget?: boolean
}

const PURGE = { forget: true } satisfies Record<keyof PurgeOptions, true>

const PAGE = 500
/** Decisions that run at the same time. */
const AT_A_TIME = 32

/**
 * Cancels the jobs that wait in a queue. Resolves with their number; jobs that are submitted during the call may be among them.
 * Running jobs go on. Fails with `unsupported` where the transport cannot list the tasks that wait.
 */
export const purgeQueue = async (
  connection: Connection,
  queue: string,
  options: PurgeOptions = {},
): Promise<number> => {
  refuseUnknown(options, PURGE, "purge()")
  const { forget = false } = options
  checkedQueue(queue)
  const { waiting } = connection.jobs
  if (waiting === undefined) {
    throw new CallboardError("unsupported", `transport ${connection.transport.name} cannot tell what waits in a queue`)
  }
  const began = performance.now()
  let purged = 0
  // Bounded, because a client that submits without end could keep the queue from ever being empty.
  while (performance.now() - began < MAX_PURGE_MS) {
    const ids = await waiting.call(connection.jobs, { queue }, PAGE)
    let taken = 0
    for (let from = 0; from < ids.length; from += AT_A_TIME) {
      const done = await Promise.all(ids.slice(from, from + AT_A_TIME).map((id) => purge(connection, id, forget)))
      const ended = done.flatMap((record) => record ?? [])
      taken += ended.length
      // The jobs are purged; that a chord has lost members is found by the sweep as well.
      await afterEnds(connection, new Map(), memberOutcomesOf(ended)).catch(() => undefined)
    }
    purged += taken
    if (taken === 0) break
  }
  return purged
}

/**
 * Purges a queue, ends its pause, and takes it off the list of queues, to which its next use adds it again. Resolves with
 * the number of jobs that waited in it. While a worker still has tasks of the queue it is listed with these. Fails with
 * `not-found`, and like {@link purgeQueue}.
 */
export const deleteQueue = async (
  connection: Connection,
  queue: string,
  options: PurgeOptions = {},
): Promise<number> => {
  const { jobs, store } = connection
  refuseUnknown(options, PURGE, "deleteQueue()")
  checkedQueue(queue)
  const [names, depths = []] = await Promise.all([jobs.queueNames(), jobs.queues?.()])
  const isThere = depths.some((each) => each.queue === queue && each.ready + each.scheduled + each.held > 0)
  if (!isThere && !names.includes(queue)) throw new CallboardError("not-found", `there is no queue ${queue}`)
  const purged = await purgeQueue(connection, queue, options)
  await resumeQueue(store, queue)
  await jobs.forgetQueue(queue)
  return purged
}

const MAX_PURGE_MS = 60_000

const purge = async (connection: Connection, id: string, forget: boolean): Promise<JobRecord | undefined> => {
  const purged = await purgeJob(connection, id)
  // A job whose steps are to be undone ends afterwards, by what its record says.
  if (purged !== undefined && forget && isTerminal(purged.state)) await deleteJob(connection, id)
  return purged
}

/**
 * Cancels a waiting job, with the reason `purged`. One with steps that can be reverted ends when they are undone, as every
 * cancelled job does. Resolves with its record if it was still waiting; a job that runs, has ended or undoes its steps is
 * left as it is.
 */
const purgeJob = async (connection: Connection, id: string): Promise<JobRecord | undefined> => {
  try {
    const purged = await decide(connection, id, ({ record }) => {
      if (record.tombstone || isTerminal(record.state) || record.state === "started" || record.undo) throw NOT_WAITING
      const now = Date.now()
      if (record.reverts) return toBeUndone(record, now)
      const cancelled = step(record, { at: now, state: "cancelled", reason: "purged" })
      return { record: endedOutside(cancelled, now, connection.keepFailed), withdraw: true }
    })
    // A worker may have just started it, which no record shows yet.
    await announceCancellation(connection, purged, false)
    return purged
  } catch (thrown) {
    if (thrown === NOT_WAITING || (thrown instanceof CallboardError && thrown.code === "not-found")) return undefined
    throw thrown
  }
}

const NOT_WAITING = new CallboardError("already-terminal", "the job does not wait any more")
