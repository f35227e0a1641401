/** One queue in numbers: the same names in code, over HTTP and on the command line. */
import type { QueueDepth } from "../transport/optional.ts"

export interface QueueStats {
  readonly name: string
  /** Whether the queue is paused: it takes tasks and gives none out. */
  readonly paused: boolean
  /** Tasks that are due and wait. */
  readonly depth: number
  /** Tasks that are not due yet. */
  readonly scheduled: number
  /** Tasks that workers have taken and not settled. */
  readonly inFlight: number
  /**
   * When the oldest waiting task was submitted: ISO 8601, in UTC. Absent where none waits, or the transport cannot
   * tell.
   */
  readonly oldest?: string
  /** How long the oldest waiting task has waited, in seconds. Absent like `oldest`. */
  readonly oldestAge?: number
}

/** `paused`: names of the paused queues. `now`: milliseconds since the epoch. */
export const queueStats = (
  counts: ReadonlyArray<QueueDepth>,
  paused: ReadonlyArray<string>,
  now: number,
): ReadonlyArray<QueueStats> =>
  counts.map(({ queue: name, ready, scheduled, held, oldest }) => ({
    name,
    paused: paused.includes(name),
    depth: ready,
    scheduled,
    inFlight: held,
    ...(oldest === undefined
      ? {}
      : { oldest: new Date(oldest).toISOString(), oldestAge: Math.max(now - oldest, 0) / 1000 }),
  }))
