/**
 * How many tasks of each queue wait, are scheduled and run. A broker knows which tasks a worker has, and workers report which
 * of these run: the others wait there, for a handler or a limit.
 */
import type { Connection } from "../connection/connection.ts"
import type { JobCount, QueueStates, RecordQuery } from "../transport/job-store/transport.ts"
import type { QueueDepth } from "../transport/optional.ts"
import { listWorkers, type QueueWork, type WorkerDescription } from "./directory.ts"

const NONE: QueueWork = { running: 0, acked: 0, postponed: 0 }

const workOf = (workers: ReadonlyArray<Pick<WorkerDescription, "byQueue">>): ReadonlyMap<string, QueueWork> => {
  const sums = new Map<string, QueueWork>()
  for (const { byQueue = {} } of workers)
    for (const [queue, { running, acked, postponed }] of Object.entries(byQueue)) {
      const sum = sums.get(queue) ?? NONE
      sums.set(queue, {
        running: sum.running + running,
        acked: sum.acked + acked,
        postponed: sum.postponed + postponed,
      })
    }
  return sums
}

/**
 * The numbers of all queues. What the workers said at their last heartbeat counts only as far as the broker still has such
 * tasks, so that the sum is always the broker's.
 */
export const statesOf = (
  depths: ReadonlyArray<QueueDepth>,
  workers: ReadonlyArray<Pick<WorkerDescription, "byQueue">>,
): ReadonlyArray<QueueStates> => {
  const work = workOf(workers)
  const empty = [...work.keys()]
    .filter((queue) => depths.every((depth) => depth.queue !== queue))
    .map((queue) => ({ queue, ready: 0, scheduled: 0, held: 0 }))
  return [...depths, ...empty].map((depth) => {
    const { running, acked, postponed } = work.get(depth.queue) ?? NONE
    const runs = Math.min(depth.held, running - acked)
    const late = Math.min(depth.scheduled, postponed)
    return {
      ...depth,
      queued: depth.ready + depth.held - runs + late,
      scheduled: depth.scheduled - late,
      started: runs + acked,
    }
  })
}

/** The numbers of all queues now; `undefined` where the transport cannot count. Fails with `TransportError`. */
export const queueStates = async ({
  jobs,
  store,
}: Pick<Connection, "jobs" | "store">): Promise<ReadonlyArray<QueueStates> | undefined> => {
  if (jobs.queues === undefined) return undefined
  const [depths, workers] = await Promise.all([jobs.queues(), listWorkers(store)])
  return statesOf(depths, workers)
}

/** How many jobs match, as `jobs.count` does. Those that are in a queue are counted by {@link queueStates}. */
export const countJobs = (
  connection: Pick<Connection, "jobs" | "store">,
  query: Omit<RecordQuery, "limit" | "after">,
  max?: number,
): Promise<JobCount> => connection.jobs.count(query, max, async () => (await queueStates(connection)) ?? [])
