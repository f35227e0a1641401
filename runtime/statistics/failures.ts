/**
 * What one worker keeps about failures, by their cause: how often in each minute, and the newest jobs. Only the causes
 * that appeared last are kept, so that an input that makes up ever more of them takes no more room than any other.
 */
import { frameOf, templateOf } from "../jobs/outcome/fingerprint.ts"
import type { JobError } from "../protocol/record.ts"
import { beginning } from "../protocol/text.ts"
import { MINUTE_MS, OTHER, SLOT_MINUTES } from "./tally.ts"

/** Most causes that a worker keeps of one slot, most jobs of one cause, and most jobs of all causes. */
const MAX_CAUSES = 100
export const MAX_IDS = 100
const MAX_IDS_IN_ALL = 2_000
const MAX_TASKS = 5
const MAX_NAME = 100

/** What becomes of a job that fails: it ends, is tried again, or is given up as a dead letter. */
export type AfterFailure = "failed" | "retrying" | "dead"

/** An attempt that has failed. */
export interface FailedAttempt {
  readonly id: string
  readonly fingerprint: string
  readonly error: JobError
  /** The message as it may be shown. */
  readonly message: string
  readonly task: string
  readonly queue: string
  /** Number of the attempt, from 1; 0 where the handler was never called. */
  readonly attempt: number
  readonly then: AfterFailure
}

/** A cause as one worker met it in one slot. Times are milliseconds since the epoch. */
export interface CauseReport {
  readonly fingerprint: string
  readonly name: string
  readonly reason: string
  readonly template: string
  readonly frame?: string
  readonly tasks: ReadonlyArray<string>
  /** How often in each queue, and at which attempt. */
  readonly queues: Readonly<Record<string, number>>
  readonly attempts: Readonly<Record<string, number>>
  /** By minute of the slot. */
  readonly minutes: ReadonlyArray<number>
  readonly then: Readonly<Record<AfterFailure, number>>
  readonly first: number
  readonly last: number
  /** Newest last. */
  readonly ids: ReadonlyArray<string>
}

/** Counts by name: the first five names, and the rest. */
const countOf = (counts: Map<string, number>, name: string): void => {
  const key = counts.has(name) || counts.size < MAX_TASKS ? name : OTHER
  counts.set(key, (counts.get(key) ?? 0) + 1)
}

class Cause {
  readonly #first: number
  readonly #about: Pick<CauseReport, "fingerprint" | "name" | "reason" | "template" | "frame">
  readonly #tasks = new Set<string>()
  readonly #queues = new Map<string, number>()
  readonly #attempts = new Map<string, number>()
  readonly #minutes = new Array<number>(SLOT_MINUTES).fill(0)
  readonly #then = { failed: 0, retrying: 0, dead: 0 }
  #last: number
  /** A set, so that a job that fails again moves to the end and is listed once. */
  readonly #ids = new Set<string>()

  constructor(now: number, { fingerprint, error, message }: FailedAttempt) {
    this.#first = now
    this.#last = now
    const frame = frameOf(error)
    this.#about = {
      fingerprint,
      name: beginning(error.name, MAX_NAME),
      reason: beginning(error.reason, MAX_NAME),
      template: templateOf(message),
      ...(frame === undefined ? {} : { frame }),
    }
  }

  get ids(): number {
    return this.#ids.size
  }

  count(now: number, { id, task, queue, attempt, then }: FailedAttempt): void {
    this.#last = now
    const minute = Math.floor(now / MINUTE_MS) % SLOT_MINUTES
    this.#minutes[minute] = (this.#minutes[minute] ?? 0) + 1
    this.#then[then]++
    if (this.#tasks.size < MAX_TASKS) this.#tasks.add(task)
    countOf(this.#queues, queue)
    countOf(this.#attempts, String(attempt))
    this.#ids.delete(id)
    this.#ids.add(id)
    if (this.#ids.size > MAX_IDS) this.forgetOldest()
  }

  forgetOldest(): void {
    for (const id of this.#ids) {
      this.#ids.delete(id)
      return
    }
  }

  report(): CauseReport {
    return {
      ...this.#about,
      tasks: [...this.#tasks],
      queues: Object.fromEntries(this.#queues),
      attempts: Object.fromEntries(this.#attempts),
      minutes: [...this.#minutes],
      then: { ...this.#then },
      first: this.#first,
      last: this.#last,
      ids: [...this.#ids],
    }
  }
}

/** The failures of one slot. Slots are numbered since the epoch. */
export interface FailureReport {
  readonly slot: number
  readonly causes: ReadonlyArray<CauseReport>
}

/** What {@link FailureTally.report} says is to be written. */
export interface PendingFailures {
  readonly slots: ReadonlyArray<FailureReport>
  readonly changes: number
}

/** Slots that are over and wait to be written, while the transport is away. */
const MAX_OVER = 3

export class FailureTally {
  /** Causes in the order in which they last appeared. */
  readonly #causes = new Map<string, Cause>()
  #slot = 0
  #ids = 0
  /** How many failures were counted, and how many of them are written. */
  #changes = 0
  #written = 0
  #over: Array<FailureReport> = []

  /** `now`: by the clock of the transport, in milliseconds since the epoch. */
  count(now: number, failed: FailedAttempt): void {
    this.#turn(now)
    const { fingerprint } = failed
    const cause = this.#causes.get(fingerprint) ?? new Cause(now, failed)
    this.#causes.delete(fingerprint)
    this.#causes.set(fingerprint, cause)
    const before = cause.ids
    cause.count(now, failed)
    this.#ids += cause.ids - before
    this.#changes++
    for (const [oldest, { ids }] of this.#causes) {
      if (this.#causes.size <= MAX_CAUSES) break
      this.#causes.delete(oldest)
      this.#ids -= ids
    }
    this.#makeRoom()
  }

  #makeRoom(): void {
    for (const each of this.#causes.values()) {
      while (this.#ids > MAX_IDS_IN_ALL && each.ids > 1) {
        each.forgetOldest()
        this.#ids--
      }
      if (this.#ids <= MAX_IDS_IN_ALL) return
    }
  }

  /** The slots to write: those that are over and the current one, if anything was added. */
  report(now: number): PendingFailures {
    this.#turn(now)
    const isChanged = this.#changes > this.#written
    return { slots: isChanged ? [...this.#over, this.#report()] : this.#over, changes: this.#changes }
  }

  /** Notes that these slots were written. They are written again only after something was added. */
  written({ slots, changes }: PendingFailures): void {
    this.#over = this.#over.filter((each) => !slots.includes(each))
    this.#written = Math.max(this.#written, changes)
  }

  #report(): FailureReport {
    return { slot: this.#slot, causes: [...this.#causes.values()].map((cause) => cause.report()) }
  }

  #turn(now: number): void {
    const slot = Math.floor(now / (SLOT_MINUTES * MINUTE_MS))
    // As counts do, failures follow a clock that was far ahead.
    const isSetBack = slot < this.#slot - 1
    if (slot <= this.#slot && !isSetBack) return
    this.#over = this.#over.filter((each) => each.slot <= slot)
    if (this.#changes > this.#written && !isSetBack) this.#over = [...this.#over, this.#report()].slice(-MAX_OVER)
    this.#causes.clear()
    this.#ids = 0
    this.#written = this.#changes
    this.#slot = slot
  }
}
