/** One queue in numbers: the same names in code, over HTTP and on the command line. */
import type { QueueLimit } from "../cluster/queue-limits.ts"
import { compact } from "../protocol/compact.ts"
import type { QueueStates } from "../transport/job-store/transport.ts"
import type { QueueStats } from "./schema.ts"

const isEmpty = ({ queued, scheduled, started }: QueueStates): boolean => queued + scheduled + started === 0

/**
 * The queues that hold something, and those that are listed. `listed`: names. `now`: milliseconds since the epoch.
 */
export const queueStats = (
  counts: ReadonlyArray<QueueStates>,
  listed: ReadonlyArray<string>,
  set: {
    readonly paused: ReadonlyArray<string>
    readonly limits: ReadonlyMap<string, Pick<QueueLimit, "maxInFlight">>
  },
  now: number,
): ReadonlyArray<QueueStats> => {
  const byName = new Map(listed.map((queue): [string, QueueStates] => [queue, { queue, ...NOTHING }]))
  for (const each of counts) if (!isEmpty(each)) byName.set(each.queue, each)
  return [...byName.values()].map(({ queue: name, queued, scheduled, started, held, oldest }) => ({
    name,
    paused: set.paused.includes(name),
    ...compact({ maxInFlight: set.limits.get(name)?.maxInFlight }),
    depth: queued,
    scheduled,
    running: started,
    inFlight: held,
    ...(oldest === undefined
      ? {}
      : { oldest: new Date(oldest).toISOString(), oldestAge: Math.max(now - oldest, 0) / 1000 }),
  }))
}

const NOTHING = { ready: 0, queued: 0, scheduled: 0, started: 0, held: 0 }
