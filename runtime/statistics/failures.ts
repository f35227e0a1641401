/**
 * What one worker keeps about failures, by their cause: how often in each minute, and the newest jobs. Of many causes only those
 * stay that were met last, so that an input which makes up ever more of them takes no more room than any other.
 */
import { frameOf, templateOf } from "../jobs/outcome/fingerprint.ts"
import type { JobError } from "../protocol/record.ts"
import { MINUTE_MS, OTHER, SLOT_MINUTES } from "./tally.ts"

/** Most causes that a worker keeps of one slot, most jobs of a cause, and most of all. */
const MOST_CAUSES = 100
export const MOST_IDS = 100
const MOST_IDS_IN_ALL = 2_000
const MOST_TASKS = 5
const MOST_NAME = 100

/** What becomes of a job that fails: it ends, is tried again, or is given up as a dead letter. */
export type Then = "failed" | "retrying" | "dead"

/** An attempt that has failed. */
export interface Failed {
  readonly id: string
  readonly fingerprint: string
  readonly error: JobError
  /** The message as it may be shown. */
  readonly message: string
  readonly task: string
  readonly queue: string
  /** Number of the attempt, from 1; 0 where the handler was never called. */
  readonly attempt: number
  readonly then: Then
}

/** A cause as one worker met it in one slot. Times are milliseconds since the epoch. */
export interface ToldCause {
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
  readonly then: Readonly<Record<Then, number>>
  readonly first: number
  readonly last: number
  /** Newest last. */
  readonly ids: ReadonlyArray<string>
}

/** Counts by name: the first five names, and the rest. */
const countOf = (counts: Map<string, number>, name: string): void => {
  const key = counts.has(name) || counts.size < MOST_TASKS ? name : OTHER
  counts.set(key, (counts.get(key) ?? 0) + 1)
}

class Cause {
  readonly #first: number
  readonly #about: Pick<ToldCause, "fingerprint" | "name" | "reason" | "template" | "frame">
  readonly #tasks = new Set<string>()
  readonly #queues = new Map<string, number>()
  readonly #attempts = new Map<string, number>()
  readonly #minutes = new Array<number>(SLOT_MINUTES).fill(0)
  readonly #then = { failed: 0, retrying: 0, dead: 0 }
  #last: number
  /** A set, so that a job that fails again comes to the end and is told once. */
  readonly #ids = new Set<string>()

  constructor(now: number, { fingerprint, error, message }: Failed) {
    this.#first = now
    this.#last = now
    const frame = frameOf(error)
    this.#about = {
      fingerprint,
      name: error.name.slice(0, MOST_NAME),
      reason: error.reason.slice(0, MOST_NAME),
      template: templateOf(message),
      ...(frame === undefined ? {} : { frame }),
    }
  }

  get ids(): number {
    return this.#ids.size
  }

  count(now: number, { id, task, queue, attempt, then }: Failed): void {
    this.#last = now
    const minute = Math.floor(now / MINUTE_MS) % SLOT_MINUTES
    this.#minutes[minute] = (this.#minutes[minute] ?? 0) + 1
    this.#then[then]++
    if (this.#tasks.size < MOST_TASKS) this.#tasks.add(task)
    countOf(this.#queues, queue)
    countOf(this.#attempts, String(attempt))
    this.#ids.delete(id)
    this.#ids.add(id)
    if (this.#ids.size > MOST_IDS) this.forgetOldest()
  }

  forgetOldest(): void {
    for (const id of this.#ids) {
      this.#ids.delete(id)
      return
    }
  }

  told(): ToldCause {
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

/** The failures of a slot, by its number since the epoch. */
export interface ToldFailures {
  readonly slot: number
  readonly causes: ReadonlyArray<ToldCause>
}

/** What {@link FailureTally.told} says is to be written. */
export interface PendingFailures {
  readonly slots: ReadonlyArray<ToldFailures>
  readonly changes: number
}

/** Slots that are over and wait to be written, while the transport is away. */
const MOST_OVER = 3

export class FailureTally {
  /** The cause that was met last comes last. */
  readonly #causes = new Map<string, Cause>()
  #slot = 0
  #ids = 0
  /** Failures that were counted, and how many of them are written. */
  #changes = 0
  #written = 0
  #over: Array<ToldFailures> = []

  /** `now`: by the clock of the transport, in milliseconds since the epoch. */
  count(now: number, failed: Failed): void {
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
      if (this.#causes.size <= MOST_CAUSES) break
      this.#causes.delete(oldest)
      this.#ids -= ids
    }
    this.#makeRoom()
  }

  #makeRoom(): void {
    for (const each of this.#causes.values()) {
      while (this.#ids > MOST_IDS_IN_ALL && each.ids > 1) {
        each.forgetOldest()
        this.#ids--
      }
      if (this.#ids <= MOST_IDS_IN_ALL) return
    }
  }

  /** What is to be written: the slots that are over and the one that goes on, where anything was added. */
  told(now: number): PendingFailures {
    this.#turn(now)
    const isChanged = this.#changes > this.#written
    return { slots: isChanged ? [...this.#over, this.#told()] : this.#over, changes: this.#changes }
  }

  /** These are written, and need not be written again unless something is added. */
  written({ slots, changes }: PendingFailures): void {
    this.#over = this.#over.filter((each) => !slots.includes(each))
    this.#written = Math.max(this.#written, changes)
  }

  #told(): ToldFailures {
    return { slot: this.#slot, causes: [...this.#causes.values()].map((cause) => cause.told()) }
  }

  #turn(now: number): void {
    const slot = Math.floor(now / (SLOT_MINUTES * MINUTE_MS))
    if (slot <= this.#slot) return
    if (this.#changes > this.#written) this.#over = [...this.#over, this.#told()].slice(-MOST_OVER)
    this.#causes.clear()
    this.#ids = 0
    this.#written = this.#changes
    this.#slot = slot
  }
}
