/** What a client does with schedules: make, list, change, pause, resume, run now, delete. */
import { isDeepStrictEqual } from "node:util"
import { beforeTry, MAX_TRIES } from "../async/conflicts.ts"
import { CallboardError } from "../errors.ts"
import type { Given } from "../options/check.ts"
import { wholeNumber } from "../options/fields.ts"
import { refuseInput, refuseUnknown } from "../options/refuse.ts"
import type { State } from "../protocol/state.ts"
import { changedTimes, dueAfterPause, newEntry, pausedEntry, posting, SCHEDULES, type ScheduleEntry } from "./entry.ts"
import {
  changedFields,
  parseScheduleFields,
  rulesOf,
  type ScheduleChanges,
  type ScheduleFields,
  submissionOf,
} from "./fields.ts"
import { checkScheduleName } from "./name.ts"
import { type PostingParts, pendingOf, publish, stoodStill, write } from "./posting.ts"
import { SCHEDULE_QUERY, type ScheduleQuery } from "./query.ts"
import { Scheduler, type SchedulerOptions } from "./scheduler.ts"
import { type ScheduleView, scheduleView, upcomingOf } from "./view.ts"

export interface SchedulePage {
  readonly schedules: ReadonlyArray<ScheduleView>
  /** Absent on the last page. */
  readonly next?: string
}

/** What a submission is checked by beside its fields: whether its task has to be known. */
export interface ScheduleContext {
  readonly strict?: boolean
  readonly lenient?: boolean
}

export interface SchedulesOptions extends PostingParts {
  /** Checks a submission as if it were submitted now. Fails with `CallboardError`, naming the field. */
  readonly check: (submission: ReturnType<typeof submissionOf>, context: ScheduleContext) => Promise<void>
}

/** The schedules of a board. A schedule that does not exist fails with `not-found`. */
export class Schedules {
  readonly #options: SchedulesOptions

  constructor(options: SchedulesOptions) {
    this.#options = options
  }

  /**
   * Makes a schedule. Making it again with the same fields changes nothing; with others it fails with `schedule-exists`. Fails
   * with `invalid-input`, `unknown-field` and `too-large`, naming the field.
   *
   * @example
   * ```ts
   * await client.schedules.create("weekly", { cron: "0 7 * * mon", timeZone: "Europe/Berlin", task: "reports.weekly" })
   * ```
   */
  async create(name: string, fields: Given<ScheduleFields>, context: ScheduleContext = {}): Promise<ScheduleView> {
    checkScheduleName(name)
    const checked = parseScheduleFields(fields)
    const { connection, check } = this.#options
    const before = await SCHEDULES.get(connection.store, name)
    if (before !== undefined) return sameOrRefused(name, before.value, checked)
    const now = await connection.store.now()
    const entry = newEntry(name, checked, rulesOf(checked, now), now)
    await check(submissionOf(checked), context)
    const written = await write(this.#options, name, entry, "")
    if (written !== undefined) return scheduleView(name, written.entry)
    return sameOrRefused(name, (await SCHEDULES.get(connection.store, name))?.value, checked)
  }

  /** A schedule, with the states of its last jobs. */
  async find(name: string): Promise<ScheduleView> {
    const { entry } = await this.#held(name)
    const { jobs } = this.#options.connection
    const found = await Promise.all(entry.runs.map(({ id }) => jobs.find(id)))
    const states = found.flatMap((each) => (each === undefined ? [] : [[each.record.id, each.record.state] as const]))
    return { ...scheduleView(name, entry, new Map<string, State>(states)), upcoming: upcomingOf(entry) }
  }

  /** Schedules by name, a page at a time. Pass `next` on as `after` until there is none. */
  async list(query: ScheduleQuery = {}): Promise<SchedulePage> {
    refuseUnknown(query, SCHEDULE_QUERY, "schedules.list()")
    const { limit = 100, after } = query
    wholeNumber("limit", limit, { min: 1, max: 1_000 }, refuseInput)
    const { prefix } = SCHEDULES
    const range = { prefix, limit: limit + 1, ...(after === undefined ? {} : { after: SCHEDULES.key(after) }) }
    const entries = await this.#options.connection.store.list(range)
    const shown = entries.slice(0, limit)
    const last = shown.at(-1)
    return {
      schedules: shown.flatMap(({ key, value }) => {
        const entry = SCHEDULES.decode(value)
        return entry === undefined ? [] : [scheduleView(key.slice(prefix.length), entry)]
      }),
      ...(entries.length > limit && last !== undefined ? { next: last.key.slice(prefix.length) } : {}),
    }
  }

  /**
   * Changes fields; `null` takes one away, and a new `cron`, `every` or `at` takes the place of the one before. What was due
   * by then is posted all the same, and jobs that were posted go on as they are.
   */
  change(name: string, changes: ScheduleChanges, context: ScheduleContext = {}): Promise<ScheduleView> {
    return this.changeFrom(name, changes, context)
  }

  /** The same, with changes that came from outside. */
  changeFrom(name: string, changes: unknown, context: ScheduleContext = {}): Promise<ScheduleView> {
    return this.#change(name, async (entry, now) => {
      const { fields, isTimed } = changedFields(entry.fields, changes)
      // A moment that has passed is refused only where the change gives it.
      const rules = rulesOf(fields, now, refuseInput, isTimed ? undefined : entry.rules.timing)
      await this.#options.check(submissionOf(fields), context)
      return isTimed ? changedTimes(name, entry, { fields, rules }, now) : { ...entry, fields, rules, changedAt: now }
    })
  }

  /** Pauses a schedule: nothing of it is posted until it is resumed. What was posted goes on. */
  pause(name: string): Promise<ScheduleView> {
    return this.#change(name, (entry, now) =>
      entry.paused ? entry : { ...pausedEntry(name, entry, now), changedAt: now },
    )
  }

  /** Resumes a paused schedule. What was due meanwhile is not posted, unless it is a single moment. */
  resume(name: string): Promise<ScheduleView> {
    return this.#change(name, (entry, now) =>
      entry.paused ? { ...entry, paused: false, due: dueAfterPause(entry, now), changedAt: now } : entry,
    )
  }

  /** Posts the task of a schedule now, also while it is paused; resolves with the id of the job. */
  async run(name: string): Promise<{ readonly id: string }> {
    for (let tried = 0; tried < MAX_TRIES; tried++) {
      await beforeTry(tried)
      const now = await this.#options.connection.store.now()
      const held = await this.#held(name)
      const entry = await publish(this.#options, held.entry, true)
      // Several calls in one millisecond are several runs.
      const due = Math.max(now, ...entry.runs.map((each) => each.due + 1))
      const pending = await pendingOf(this.#options, name, entry, due, now)
      const since = Date.now()
      const written = await write(this.#options, name, posting(entry, pending, due), held.revision)
      if (written === undefined) continue
      const done = await publish(this.#options, written.entry, stoodStill(since))
      // At a conflict another process has found the posting, and has taken it out.
      await write(this.#options, name, done, written.revision)
      const [missed] = done.missed.latest
      if (done.runs[0]?.id === pending.id) return { id: pending.id }
      throw new CallboardError("unsupported", `the transport refuses the task: ${missed?.detail}`)
    }
    throw busy(name)
  }

  /** Starts to post what is due, as each worker does. */
  scheduler(options: Omit<SchedulerOptions, keyof PostingParts>): Scheduler {
    return new Scheduler({ ...this.#options, ...options })
  }

  /** Deletes a schedule. What it has posted goes on. */
  async delete(name: string): Promise<void> {
    const { store } = this.#options.connection
    for (let tried = 0; tried < MAX_TRIES; tried++) {
      await beforeTry(tried)
      const { entry, revision } = await this.#held(name)
      // A posting in the entry was accepted, and its job is promised.
      await publish(this.#options, entry, true)
      const written = await store.write([{ key: SCHEDULES.key(name), value: null, expect: revision }])
      if (written !== "conflict") return
    }
    throw busy(name)
  }

  async #held(name: string): Promise<{ readonly entry: ScheduleEntry; readonly revision: string }> {
    checkScheduleName(name)
    const found = await SCHEDULES.get(this.#options.connection.store, name)
    if (found === undefined) throw new CallboardError("not-found", `there is no schedule ${name}`)
    if (found.value === undefined) {
      throw new CallboardError("unsupported", `schedule ${name} cannot be read, because another version wrote it`)
    }
    return { entry: found.value, revision: found.revision }
  }

  async #change(
    name: string,
    to: (entry: ScheduleEntry, now: number) => ScheduleEntry | Promise<ScheduleEntry>,
  ): Promise<ScheduleView> {
    for (let tried = 0; tried < MAX_TRIES; tried++) {
      await beforeTry(tried)
      const { entry, revision } = await this.#held(name)
      const changed = await to(entry, await this.#options.connection.store.now())
      if (changed === entry) return scheduleView(name, entry)
      const written = await write(this.#options, name, changed, revision)
      if (written !== undefined) return scheduleView(name, written.entry)
    }
    throw busy(name)
  }
}

const sameOrRefused = (name: string, entry: ScheduleEntry | undefined, fields: ScheduleFields): ScheduleView => {
  if (entry !== undefined && isDeepStrictEqual(entry.fields, fields)) return scheduleView(name, entry)
  throw new CallboardError("schedule-exists", `schedule ${name} exists already: change it, or delete it first`, {
    field: "name",
  })
}

const busy = (name: string): CallboardError =>
  new CallboardError("overloaded", `schedule ${name} keeps changing: try again`)
