/** Tasks that a worker has put off because they could not run yet, and why: for the question why a job waits. */

/**
 * Reasons that pass: a limit, or the end of another suspect job, lets the task run later. Whether the other reasons ever
 * pass, no worker can know.
 */
const PASSING_REASONS = ["rate-limit", "concurrency-limit", "tenant-limit", "queue-limit", "suspect"] as const
export const DEFERRAL_REASONS = ["unknown-actor", "unsupported", "actor-unhealthy", ...PASSING_REASONS] as const

/** A task may come this much later than its postponement says, in milliseconds. */
export const LATE_MS = 3_000

/**
 * A task that could not run yet, and will be tried again. (The state `deferred` is something else: a job that waits for
 * other jobs.)
 */
export interface Postponement {
  readonly id: string
  readonly queue: string
  readonly reason: (typeof DEFERRAL_REASONS)[number]
  /** When the task is delivered again at the latest, in milliseconds since the epoch. */
  readonly until: number
  /** True: the task was not handed back, its worker holds it and starts it as soon as its limit allows. */
  readonly waits?: boolean
  /** More about the reason, as text for people. */
  readonly detail: string
}

/** Whether the reason passes. */
export const isPassing = ({ reason }: Postponement): boolean => PASSING_REASONS.some((passing) => passing === reason)
