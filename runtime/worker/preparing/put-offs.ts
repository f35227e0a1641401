/** What a worker handed back because it could not run it now, and why: for whoever asks why a job waits. */

/** More at a time, and the oldest are forgotten: this is to tell people, nothing depends on it. */
const CAPACITY = 10_000

export const PUT_OFF_REASONS = [
  "unknown-actor",
  "actor-unhealthy",
  "rate-limit",
  "concurrency-limit",
  "tenant-limit",
] as const

/** A task that was handed back, and comes again. */
export interface PutOff {
  readonly id: string
  readonly reason: (typeof PUT_OFF_REASONS)[number]
  /** When it may be delivered again, in milliseconds since the epoch. */
  readonly until: number
  /** More about it, for people. */
  readonly detail: string
}

export class PutOffs {
  readonly #notes = new Map<string, PutOff>()

  note(putOff: PutOff): void {
    this.#notes.delete(putOff.id)
    if (this.#notes.size >= CAPACITY) {
      const oldest = this.#notes.keys().next()
      if (!oldest.done) this.#notes.delete(oldest.value)
    }
    this.#notes.set(putOff.id, putOff)
  }

  /** It runs, or has ended. */
  forget(id: string): void {
    this.#notes.delete(id)
  }

  /** About one job, or the newest about all, as many as are asked for. */
  list(id: string | undefined, most: number): ReadonlyArray<PutOff> {
    if (id === undefined) return [...this.#notes.values()].slice(-most)
    const note = this.#notes.get(id)
    return note === undefined ? [] : [note]
  }
}
