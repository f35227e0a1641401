/** One queue in numbers: the same names in code, over HTTP and on the command line. */
import type { QueueDepth } from "../transport/optional.ts"
import type { QueueStats } from "./schema.ts"

const isEmpty = ({ ready, scheduled, held }: QueueDepth): boolean => ready + scheduled + held === 0

/**
 * The queues that hold something, and those that are listed. `listed` and `paused`: names. `now`: milliseconds since the
 * epoch.
 */
export const queueStats = (
  counts: ReadonlyArray<QueueDepth>,
  listed: ReadonlyArray<string>,
  paused: ReadonlyArray<string>,
  now: number,
): ReadonlyArray<QueueStats> => {
  const byName = new Map(listed.map((queue): [string, QueueDepth] => [queue, { queue, ...NOTHING }]))
  for (const each of counts) if (!isEmpty(each)) byName.set(each.queue, each)
  return [...byName.values()].map(({ queue: name, ready, scheduled, held, oldest }) => ({
    name,
    paused: paused.includes(name),
    depth: ready,
    scheduled,
    inFlight: held,
    ...(oldest === undefined
      ? {}
      : { oldest: new Date(oldest).toISOString(), oldestAge: Math.max(now - oldest, 0) / 1000 }),
  }))
}

const NOTHING = { ready: 0, scheduled: 0, held: 0 }
