/** What the handles of jobs know, beside what they show: the entry of the job as it was last seen, and the own claim. */
import { refuseInput } from "../options/refuse.ts"
import type { Known } from "./entries.ts"
import { BoardJob, type JobBoard } from "./job.ts"

/** What a handle knows of its job. */
export interface Held {
  known: Known | undefined
  last: Known["record"]
  claim: { readonly owner: string; readonly number: number } | undefined
}

/** A job as callers name it. */
export type GivenJob = BoardJob | string

export const idOf = (job: GivenJob): string => {
  if (typeof job === "string") return job
  return job instanceof BoardJob ? job.id : refuseInput("id", "must be text, or a job of a board")
}

export class Handles {
  readonly #board: JobBoard
  readonly #held = new WeakMap<BoardJob, Held>()

  constructor(board: JobBoard) {
    this.#board = board
  }

  handle(known: Known): BoardJob {
    const job = new BoardJob(known.record, this.#board)
    this.#held.set(job, { known, last: known.record, claim: undefined })
    return job
  }

  /** `undefined` for an id, and for a job of another board. */
  heldOf(job: GivenJob): Held | undefined {
    return job instanceof BoardJob ? this.#held.get(job) : undefined
  }
}
