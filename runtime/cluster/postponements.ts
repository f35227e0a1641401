/** Tasks that a worker has put off because they could not run yet, and why: for the question why a job waits. */

/**
 * Reasons that pass: a limit, or the end of another suspect job, lets the task run later. Whether the other reasons ever
 * pass, no worker can know.
 */
const PASSING_REASONS = ["rate-limit", "concurrency-limit", "tenant-limit", "suspect"] as const
export const DEFERRAL_REASONS = ["unknown-actor", "unsupported", "actor-unhealthy", ...PASSING_REASONS] as const

/** A task may come this much later than its postponement says, in milliseconds. */
export const LATE_MS = 3_000

/** Deferrals that a worker remembers. Beyond that the oldest is forgotten; only the moment of its return is kept. */
const CAPACITY = 10_000

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

/** The postponements of one worker, newest last, one per job. */
export class Postponements {
  readonly #byId = new Map<string, Postponement>()
  /** Latest return of a task whose postponement was forgotten for lack of room. */
  #forgottenUntil = 0

  note(postponement: Postponement): void {
    this.#byId.delete(postponement.id)
    if (this.#byId.size >= CAPACITY) {
      const oldest = this.#byId.values().next().value
      if (oldest !== undefined) this.#drop(oldest)
    }
    this.#byId.set(postponement.id, postponement)
  }

  #drop(oldest: Postponement): void {
    this.#byId.delete(oldest.id)
    if (passes(oldest)) this.#forgottenUntil = Math.max(this.#forgottenUntil, oldest.until)
  }

  /**
   * When the last task that was put off for a reason that passes returns to one of these queues, in milliseconds since the epoch, unless
   * it has run here since.
   */
  lastReturnAt(queues: ReadonlyArray<string>): number {
    let last = queues.length > 0 ? this.#forgottenUntil : 0
    for (const postponement of this.#byId.values())
      if (passes(postponement) && queues.includes(postponement.queue)) last = Math.max(last, postponement.until)
    return last + LATE_MS
  }

  /** The job runs or has ended: its postponement is over. */
  forget(id: string): void {
    this.#byId.delete(id)
  }

  /** The postponement of one job, or the newest ones of all jobs, `max` at most. */
  list(id: string | undefined, max: number): ReadonlyArray<Postponement> {
    if (id === undefined) return [...this.#byId.values()].slice(-max)
    const postponement = this.#byId.get(id)
    return postponement === undefined ? [] : [postponement]
  }
}

/** Whether the reason passes. */
const passes = ({ reason }: Postponement): boolean => PASSING_REASONS.some((passing) => passing === reason)
