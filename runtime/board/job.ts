/** A job of a board, as code holds it. */

import { type DurationInput, milliseconds } from "../options/duration.ts"
import { refuseInput } from "../options/refuse.ts"
import type { BoardPriority, BoardRecord, BoardState } from "../protocol/board.ts"
import { checkCallOptions } from "./call-options.ts"
import type { BoardJobView } from "./view.ts"

/** How often {@link BoardJob.wait} reads the job. A notification of its end ends the wait earlier. */
export interface JobWaitOptions {
  /** Longest wait. Absent: no bound. */
  readonly timeout?: DurationInput | undefined
  /** The first pause. Defaults to 10 ms. */
  readonly delay?: DurationInput | undefined
  /** The pause grows by this factor, 1 at least. Defaults to 2. */
  readonly multiplier?: number | undefined
  /** The longest pause. Defaults to 1 second. */
  readonly maxDelay?: DurationInput | undefined
  /** Ends the wait, as the timeout does. */
  readonly signal?: AbortSignal | undefined
}

/** How a wait goes on, in milliseconds. */
interface JobWait {
  readonly timeoutMs: number
  readonly delayMs: number
  readonly multiplier: number
  readonly maxDelayMs: number
}

/** Fails with `invalid-input`, naming the option. */
export const jobWaitOf = (options: JobWaitOptions): JobWait => {
  checkCallOptions("wait", options)
  const { timeout, delay = 0.01, multiplier = 2, maxDelay = 1 } = options
  const timeoutMs = timeout === undefined ? Number.POSITIVE_INFINITY : milliseconds("timeout", timeout)
  const maxDelayMs = milliseconds("maxDelay", maxDelay)
  const delayMs = milliseconds("delay", delay)
  if (!(multiplier >= 1)) refuseInput("multiplier", "must be at least 1")
  return { timeoutMs, delayMs, multiplier, maxDelayMs }
}

/** The operations of its board that a job needs. */
export interface JobBoard {
  readonly name: string
  find(job: BoardJob): Promise<BoardJobView>
  expiresIn(job: BoardJob): Promise<BoardJobView["expiresIn"]>
  extendExpiry(job: BoardJob, expiry: DurationInput | null): Promise<boolean>
  waitFor(job: BoardJob, options?: JobWaitOptions): Promise<boolean>
}

type Content = "id" | "name" | "priority" | "details" | "book" | "createdAt"
/** The fields of a job that never change. */
type BoardJobContent = Pick<BoardRecord, Content> & { readonly sequence: number }

export class BoardJob {
  readonly id: string
  readonly name: string
  readonly priority: BoardPriority
  readonly details: Readonly<Record<string, unknown>>
  readonly book: { readonly name: string; readonly uuid: string } | null
  /** Rises from posting to posting. */
  readonly sequence: number
  readonly createdAt: Date
  readonly #board: JobBoard

  constructor(record: BoardJobContent, board: JobBoard) {
    this.id = record.id
    this.name = record.name
    this.priority = record.priority
    this.details = record.details
    this.book = record.book ?? null
    this.sequence = record.sequence
    this.createdAt = new Date(record.createdAt)
    this.#board = board
  }

  /** Name of the board. */
  get board(): string {
    return this.#board.name
  }

  /** The job as it is now; of a job that was consumed or trashed the last known view, with the state `COMPLETE`. */
  find(): Promise<BoardJobView> {
    return this.#board.find(this)
  }

  async state(): Promise<BoardState> {
    return (await this.find()).state
  }

  /** Owner of the claim that holds. */
  async owner(): Promise<string | null> {
    return (await this.find()).owner
  }

  async lastModified(): Promise<Date> {
    return new Date((await this.find()).modifiedAt)
  }

  /** Seconds until the claim lapses. */
  expiresIn(): Promise<BoardJobView["expiresIn"]> {
    return this.#board.expiresIn(this)
  }

  /** Sets how long the claim holds from now on, longer or shorter than before; false where no claim holds. */
  extendExpiry(expiry: DurationInput | null): Promise<boolean> {
    return this.#board.extendExpiry(this, expiry)
  }

  /**
   * Waits until the job is consumed or trashed; resolves with false where the timeout is over first. Fails with
   * `invalid-input`.
   */
  wait(options?: JobWaitOptions): Promise<boolean> {
    return this.#board.waitFor(this, options)
  }
}
