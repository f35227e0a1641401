/**
 * What this process knows about the jobs that it holds objects of: the entry of a job as it was last seen, and the
 * claim that was made here.
 */
import { refuseInput } from "../options/refuse.ts"
import type { Known } from "./entries.ts"
import { BoardJob, type JobBoard } from "./job.ts"

/** What is known of one job. */
export interface KnownJob {
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

/** A job with what its board knows of it. A weak map would need half a microsecond for that. */
class HeldJob extends BoardJob {
  readonly #held: KnownJob
  readonly #of: Handles

  constructor(known: Known, board: JobBoard, of: Handles) {
    super(known.record, board)
    this.#held = { known, last: known.record, claim: undefined }
    this.#of = of
  }

  static heldOf(job: BoardJob, of: Handles): KnownJob | undefined {
    return #held in job && job.#of === of ? job.#held : undefined
  }
}

export class Handles {
  readonly #board: JobBoard

  constructor(board: JobBoard) {
    this.#board = board
  }

  handle(known: Known): BoardJob {
    return new HeldJob(known, this.#board, this)
  }

  /** `undefined` for an id, and for a job of another board. */
  knownOf(job: GivenJob): KnownJob | undefined {
    return job instanceof BoardJob ? HeldJob.heldOf(job, this) : undefined
  }
}
