/** What a worker handed back because it could not run it now, and why: for whoever asks why a job waits. */

import { LIMIT_REASONS as LIMITS, type PUT_OFF_REASONS } from "./remote/answers.ts"

/** A task may come so much later than it was told to. */
export const LATE_MS = 3_000

/** More at a time, and the oldest are forgotten, but for when the last of them comes back. */
const CAPACITY = 10_000

/** A task that was handed back, and comes again. */
export interface PutOff {
  readonly id: string
  readonly queue: string
  readonly reason: (typeof PUT_OFF_REASONS)[number]
  /** When it is delivered again at the latest, in milliseconds since the epoch. */
  readonly until: number
  /** It was not handed back: its worker starts it as soon as its limit allows. */
  readonly waits?: boolean
  /** More about it, for people. */
  readonly detail: string
}

export class PutOffs {
  readonly #notes = new Map<string, PutOff>()
  /** Of those that were forgotten because there are too many, when the last one comes. */
  #forgottenUntil = 0

  note(putOff: PutOff): void {
    this.#notes.delete(putOff.id)
    if (this.#notes.size >= CAPACITY) {
      const oldest = this.#notes.values().next().value
      if (oldest !== undefined) this.#drop(oldest)
    }
    this.#notes.set(putOff.id, putOff)
  }

  #drop(oldest: PutOff): void {
    this.#notes.delete(oldest.id)
    if (isByLimit(oldest)) this.#forgottenUntil = Math.max(this.#forgottenUntil, oldest.until)
  }

  /** Until when tasks of some queues may come that a limit has put off and that have not run here since, in milliseconds since the epoch. */
  comeUntil(queues: ReadonlyArray<string>): number {
    let last = queues.length > 0 ? this.#forgottenUntil : 0
    for (const note of this.#notes.values())
      if (isByLimit(note) && queues.includes(note.queue)) last = Math.max(last, note.until)
    return last + LATE_MS
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

/** Whether it is for a limit that a task was put off. */
export const isByLimit = ({ reason }: PutOff): boolean => LIMITS.some((limit) => limit === reason)
