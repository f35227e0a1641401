/**
 * What one worker counts: per task, queue and minute how its attempts ended, and histograms of how long they had waited and
 * how long they ran. One job costs a few increments; nothing is written here.
 */
import { BUCKETS, bucketOf, histogramText } from "./histogram.ts"

/** How the attempts of a task ended. `retried`: it failed, and another attempt follows. */
export const ENDS = ["succeeded", "failed", "retried", "cancelled", "expired"] as const
export type End = (typeof ENDS)[number]

const AT: Readonly<Record<End, number>> = { succeeded: 0, failed: 1, retried: 2, cancelled: 3, expired: 4 }

export const MINUTE_MS = 60_000
/** Minutes in one entry of the store. */
export const SLOT_MINUTES = 10
export const SLOT_MS = SLOT_MINUTES * MINUTE_MS

/** Most tasks and queues that a worker counts one by one; the rest is counted as {@link OTHER}. */
export const MAX_CELLS = 40
export const OTHER = "(other)"

/** Most minutes of submission that one entry holds. */
const MAX_SUBMITTED = 120
/** Jobs that were submitted before this, in minutes, are counted as if they had been submitted then. */
const OLDEST_SUBMITTED_MINUTES = 26 * 60

/** One attempt that has ended. Times are milliseconds. */
export interface EndedAttempt {
  readonly task: string
  readonly queue: string
  readonly end: End
  /** From when it could have been taken to the start of its handler; absent: not known. */
  readonly waited?: number | undefined
  /** Absent: its handler did not run. */
  readonly ran?: number | undefined
  /** Given on the first attempt of a job: when it was submitted. */
  readonly submittedAt?: number | undefined
}

const add = (counts: Uint32Array, at: number): void => {
  counts[at] = (counts[at] ?? 0) + 1
}

/** Task, queue, and the counts as text. */
export type CellReport = readonly [task: string, queue: string, counts: string]

/** Counts of one task and queue in one slot. */
class Cell {
  readonly #task: string
  readonly #queue: string
  readonly #ends = new Uint32Array(ENDS.length)
  readonly #waited = new Uint32Array(BUCKETS)
  readonly #ran = new Uint32Array(BUCKETS)
  #isEmpty = true
  /** The minutes of the slot that are over, as text. */
  readonly #lines: Array<string> = []
  /** Jobs by the minute of their submission, which may be long before the slot. */
  readonly #submitted = new Map<number, number>()
  /** The minute of submission that was counted last, and its number: so the map is seldom changed. */
  #submittedMinute = 0
  #submittedCount = 0

  constructor(task: string, queue: string) {
    this.#task = task
    this.#queue = queue
  }

  count(end: End, waited: number | undefined, ran: number | undefined): void {
    this.#isEmpty = false
    add(this.#ends, AT[end])
    if (waited !== undefined) add(this.#waited, bucketOf(waited))
    if (ran !== undefined) add(this.#ran, bucketOf(ran))
  }

  /** `now`: the minute in which a job is counted once there are too many other minutes. */
  countSubmitted(minute: number, now: number): void {
    if (minute !== this.#submittedMinute) {
      this.#sumUp()
      const hasRoom = this.#submitted.has(minute) || this.#submitted.size < MAX_SUBMITTED
      this.#submittedMinute = hasRoom ? minute : now
    }
    this.#submittedCount++
  }

  #sumUp(): void {
    if (this.#submittedCount === 0) return
    const before = this.#submitted.get(this.#submittedMinute) ?? 0
    this.#submitted.set(this.#submittedMinute, before + this.#submittedCount)
    this.#submittedCount = 0
  }

  /** The counts of a minute: `3 12,0,1,0,0|<waited>|<ran>`. */
  #line(minute: number): string {
    return `${minute % SLOT_MINUTES} ${this.#ends.join(",")}|${histogramText(this.#waited)}|${histogramText(this.#ran)}`
  }

  endMinute(minute: number): void {
    if (this.#isEmpty) return
    this.#lines.push(this.#line(minute))
    this.#ends.fill(0)
    this.#waited.fill(0)
    this.#ran.fill(0)
    this.#isEmpty = true
  }

  /** All that was counted in the slot, `minute` included. */
  report(minute: number): CellReport {
    this.#sumUp()
    const first = minute - (minute % SLOT_MINUTES)
    const submitted = [...this.#submitted].map(([at, count]) => `${at - first}:${count}`).join(" ")
    const lines = this.#isEmpty ? this.#lines : [...this.#lines, this.#line(minute)]
    return [this.#task, this.#queue, [submitted, ...lines].join("\n")]
  }
}

/** Most slots that are over and wait to be written, while the transport is away. */
export const MAX_OVER = 6

/** What was counted in a slot; `slot` is its number since the epoch. */
export interface SlotReport {
  readonly slot: number
  readonly cells: ReadonlyArray<CellReport>
}

export class Tally {
  readonly #cells = new Map<string, Map<string, Cell>>()
  #size = 0
  #minute = 0
  /** Slots that are over and were not written yet, oldest first. */
  #over: Array<SlotReport> = []

  /** `now`: by the clock of the transport, in milliseconds since the epoch. */
  count(now: number, { task, queue, end, waited, ran, submittedAt }: EndedAttempt): void {
    this.#turn(now)
    const cell = this.#cell(task, queue)
    cell.count(end, waited, ran)
    if (submittedAt === undefined) return
    const minute = Math.floor(submittedAt / MINUTE_MS)
    const known = Math.min(Math.max(minute, this.#minute - OLDEST_SUBMITTED_MINUTES), this.#minute)
    cell.countSubmitted(known, this.#minute)
  }

  /** The present slot, and those before it that are to be written for the last time. */
  report(now: number): { readonly current: SlotReport; readonly over: ReadonlyArray<SlotReport> } {
    this.#turn(now)
    return { current: this.#report(), over: this.#over }
  }

  /** Notes that these slots were written, so that they are not written again. */
  written(over: ReadonlyArray<SlotReport>): void {
    this.#over = this.#over.filter((each) => !over.includes(each))
  }

  #report(): SlotReport {
    const cells = [...this.#cells.values()].flatMap((queues) => [...queues.values()])
    return { slot: slotOf(this.#minute), cells: cells.map((cell) => cell.report(this.#minute)) }
  }

  /**
   * Ends the minute, and the slot, that are over. A clock that goes back by a little ends nothing. One that goes back by more was
   * far ahead before: what it counted there is left out, so that it does not hide what comes until then.
   */
  #turn(now: number): void {
    const minute = Math.floor(now / MINUTE_MS)
    const isSetBack = minute < this.#minute - SLOT_MINUTES
    if (minute <= this.#minute && !isSetBack) return
    if (slotOf(minute) !== slotOf(this.#minute)) {
      this.#over = this.#over.filter(({ slot }) => slot <= slotOf(minute))
      if (this.#size > 0 && !isSetBack) this.#over = [...this.#over, this.#report()].slice(-MAX_OVER)
      this.#cells.clear()
      this.#size = 0
    } else {
      for (const queues of this.#cells.values()) for (const cell of queues.values()) cell.endMinute(this.#minute)
    }
    this.#minute = minute
  }

  #cell(task: string, queue: string): Cell {
    const known = this.#cells.get(task)?.get(queue)
    if (known !== undefined) return known
    if (this.#size >= MAX_CELLS && task !== OTHER) return this.#cell(OTHER, OTHER)
    const cell = new Cell(task, queue)
    const queues = this.#cells.get(task) ?? new Map<string, Cell>()
    this.#cells.set(task, queues.set(queue, cell))
    this.#size++
    return cell
  }
}

const slotOf = (minute: number): number => Math.floor(minute / SLOT_MINUTES)
