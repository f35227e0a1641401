/** A queue as people and programs see it: over HTTP and on the command line. */
import type { QueueStats } from "./queue-stats.ts"

export interface QueueView {
  readonly name: string
  readonly paused: boolean
  /** Tasks that are due and wait. */
  readonly depth: number
  /** Tasks that are not due yet. */
  readonly scheduled: number
  /** Tasks that workers have taken and not settled. */
  readonly inFlight: number
  /** When the oldest waiting task was submitted: ISO 8601, in UTC. */
  readonly oldest?: string
  /** How long it has waited, in seconds. */
  readonly oldestAge?: number
}

/** `paused`: names of the queues that are. `now`: milliseconds since the epoch. */
export const queueViews = (
  stats: ReadonlyArray<QueueStats>,
  paused: ReadonlyArray<string>,
  now: number,
): ReadonlyArray<QueueView> =>
  stats.map(({ queue: name, ready, scheduled, inFlight, oldest }) => ({
    name,
    paused: paused.includes(name),
    depth: ready,
    scheduled,
    inFlight,
    ...(oldest === undefined
      ? {}
      : { oldest: new Date(oldest).toISOString(), oldestAge: Math.max(now - oldest, 0) / 1000 }),
  }))
