/** Tasks that a worker has put off because they could not run yet, and why: for the question why a job waits. */

/**
 * Reasons that pass: a limit, or the end of another suspect job, lets the task run later. Whether the other reasons ever
 * pass, no worker can know.
 */
const PASSING_REASONS = ["rate-limit", "concurrency-limit", "tenant-limit", "suspect"] as const
export const DEFERRAL_REASONS = ["unknown-actor", "unsupported", "actor-unhealthy", ...PASSING_REASONS] as const

/** A task may come this much later than its deferral says, in milliseconds. */
export const LATE_MS = 3_000

/** Deferrals that a worker remembers. Beyond that the oldest is forgotten; only the moment of its return is kept. */
const CAPACITY = 10_000

/**
 * A task that could not run yet, and will be tried again. (The state `deferred` is something else: a job that waits for
 * other jobs.)
 */
export interface Deferral {
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

/** The deferrals of one worker, newest last, one per job. */
export class Deferrals {
  readonly #byId = new Map<string, Deferral>()
  /** Latest return of a task whose deferral was forgotten for lack of room. */
  #forgottenUntil = 0

  note(deferral: Deferral): void {
    this.#byId.delete(deferral.id)
    if (this.#byId.size >= CAPACITY) {
      const oldest = this.#byId.values().next().value
      if (oldest !== undefined) this.#drop(oldest)
    }
    this.#byId.set(deferral.id, deferral)
  }

  #drop(oldest: Deferral): void {
    this.#byId.delete(oldest.id)
    if (passes(oldest)) this.#forgottenUntil = Math.max(this.#forgottenUntil, oldest.until)
  }

  /**
   * When the last task that was put off for a reason that passes returns to one of these queues, in milliseconds since the epoch, unless
   * it has run here since.
   */
  lastReturnAt(queues: ReadonlyArray<string>): number {
    let last = queues.length > 0 ? this.#forgottenUntil : 0
    for (const deferral of this.#byId.values())
      if (passes(deferral) && queues.includes(deferral.queue)) last = Math.max(last, deferral.until)
    return last + LATE_MS
  }

  /** The job runs or has ended: its deferral is over. */
  forget(id: string): void {
    this.#byId.delete(id)
  }

  /** The deferral of one job, or the newest ones of all jobs, `most` at most. */
  list(id: string | undefined, most: number): ReadonlyArray<Deferral> {
    if (id === undefined) return [...this.#byId.values()].slice(-most)
    const deferral = this.#byId.get(id)
    return deferral === undefined ? [] : [deferral]
  }
}

/** Whether the reason passes. */
const passes = ({ reason }: Deferral): boolean => PASSING_REASONS.some((passing) => passing === reason)
