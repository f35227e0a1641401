/**
 * The one entry of the store that a schedule has, and how it moves on: pure rules over the entry and the time.
 *
 * A due time comes into `line`, in order, where it is to be posted at all. The first of the line is posted by two changes of
 * the entry: the first one holds the posting, the second one, after it was published, does not any more. A scheduler that
 * dies in between leaves the posting in the entry, where any other finds it.
 */
import * as Schema from "effect/Schema"
import { StoreEntry } from "../async/store-entry.ts"
import { compact } from "../protocol/compact.ts"
import { cut } from "../protocol/text.ts"
import { ScheduleFieldsSchema } from "./fields.ts"
import { dueTimesBetween, jitterOf, nextDue } from "./timing.ts"

/** Runs, and stretches of missed due times, that an entry remembers. */
const REMEMBERED = 20

/** A due time that is later than this, in milliseconds, is missed where the rule for late ones is `skip`. */
export const LATE_MS = 60_000

/** After this time a posting that is still in its entry is taken for one whose scheduler died. */
export const REPAIR_MS = 5_000

const ScheduledRun = Schema.Struct({
  id: Schema.String,
  due: Schema.Finite,
  at: Schema.Finite,
  /** The job of this run has ended. Noted only where the rule for overlaps needs it. */
  ended: Schema.optionalKey(Schema.Literal(true)),
})

/** Why due times were not posted. `refused`: the task cannot be planned any more, or the transport does not take it. */
const MISSED = ["late", "overlap", "paused", "refused"] as const
const Missed = Schema.Struct({
  from: Schema.Finite,
  to: Schema.Finite,
  count: Schema.Int,
  why: Schema.Literals(MISSED),
  detail: Schema.optionalKey(Schema.String),
})
type Missed = typeof Missed.Type

const TimingSchema = Schema.Union([
  Schema.Struct({ kind: Schema.Literal("cron"), cron: Schema.String, timeZone: Schema.String }),
  Schema.Struct({ kind: Schema.Literal("every"), everyMs: Schema.Finite, anchor: Schema.Finite }),
  Schema.Struct({ kind: Schema.Literal("at"), at: Schema.Finite }),
])

/** The rules of a schedule, from its fields. */
export const Rules = Schema.Struct({
  timing: TimingSchema,
  catchUp: Schema.Literals(["skip", "last", "all"]),
  overlap: Schema.Literals(["allow", "skip", "queue"]),
  /** Most due times in the line. */
  most: Schema.Int,
  jitterMs: Schema.Finite,
})
export type Rules = typeof Rules.Type

/** A posting that is to be published: a message as the bytes of an envelope, in base64, and its queue. */
const Pending = Schema.Struct({
  id: Schema.String,
  /** When it was put here, by the store's clock. */
  at: Schema.Finite,
  queue: Schema.String,
  frame: Schema.String,
})

export const ScheduleEntry = Schema.Struct({
  /** When a scheduler has to look at the schedule next, by the store's clock; `null`: there is nothing to do. */
  wake: Schema.NullOr(Schema.Finite),
  fields: ScheduleFieldsSchema,
  rules: Rules,
  paused: Schema.Boolean,
  /** The next due time; `null`: none is left. */
  due: Schema.NullOr(Schema.Finite),
  /** Due times that are to be posted and wait for their turn. */
  line: Schema.Array(Schema.Finite),
  pending: Schema.optionalKey(Pending),
  /** The last runs, newest first. */
  runs: Schema.Array(ScheduledRun),
  /** Due times that were not posted: how many ever, and the last stretches of them, newest first. */
  missed: Schema.Struct({ count: Schema.Int, latest: Schema.Array(Missed) }),
  /** What an actor's method says about its schedule, as JSON, where one declares it. */
  declared: Schema.optionalKey(Schema.Struct({ actor: Schema.String, as: Schema.String })),
  createdAt: Schema.Finite,
  changedAt: Schema.Finite,
})
export type ScheduleEntry = typeof ScheduleEntry.Type

/** All schedules, by name. */
export const SCHEDULES = new StoreEntry("schedule/", ScheduleEntry)
/** The same entries, of which only the time is read. */
export const WAKES = new StoreEntry("schedule/", Schema.Struct({ wake: Schema.NullOr(Schema.Finite) }))

/** Id of the job of a due time: `reports.weekly-20260105T070000Z`. */
export const jobIdOf = (name: string, due: number): string =>
  `${name}-${new Date(due).toISOString().replaceAll(/[-:]|\.000|\./g, "")}`

/** When a due time is posted: with its part of the jitter, but before the next one is due. */
export const postedAt = (name: string, { jitterMs, timing }: Rules, due: number): number => {
  if (jitterMs === 0) return due
  const next = nextDue(timing, due) ?? Number.POSITIVE_INFINITY
  return due + jitterOf(jobIdOf(name, due), Math.min(jitterMs, next - due))
}

const wakeOf = (name: string, entry: ScheduleEntry): number | null => {
  if (entry.pending !== undefined) return entry.pending.at + REPAIR_MS
  const [first] = entry.line
  if (first !== undefined) return first
  return entry.paused || entry.due === null ? null : postedAt(name, entry.rules, entry.due)
}

/** The entry with the time at which it has to be looked at next. */
export const withWake = (name: string, entry: ScheduleEntry): ScheduleEntry => ({
  ...entry,
  wake: wakeOf(name, entry),
})

/** A new entry, whose interval begins now. */
export const newEntry = (
  name: string,
  fields: ScheduleEntry["fields"],
  rules: Rules,
  now: number,
  declared?: ScheduleEntry["declared"],
): ScheduleEntry =>
  withWake(name, {
    wake: null,
    fields,
    rules,
    paused: false,
    due: firstDue(rules, now),
    line: [],
    runs: [],
    missed: { count: 0, latest: [] },
    ...compact({ declared }),
    createdAt: now,
    changedAt: now,
  })

/** The first due time from now on. An interval is due at once. */
export const firstDue = ({ timing }: Rules, now: number): number | null =>
  nextDue(timing, timing.kind === "every" ? now - 1 : now) ?? null

/** The next due time of a schedule that goes on after a pause. A single moment that has passed meanwhile is late. */
export const dueAfterPause = ({ rules, due }: ScheduleEntry, now: number): number | null =>
  rules.timing.kind === "at" ? due : (nextDue(rules.timing, now) ?? null)

/** The entry of a schedule that is paused. Its due times are missed, also those in its line; a single moment stays due. */
export const pausedEntry = (name: string, entry: ScheduleEntry, now: number): ScheduleEntry => {
  const due = entry.rules.timing.kind === "at" ? entry : collectDue(name, entry, now)
  return { ...missing(due, due.line, "paused"), line: [], paused: true }
}

/**
 * The entry with other fields, rules and times. Due times of the earlier fields are posted by the new rules, also one that still
 * waits for its part of the jitter.
 */
export const changedTimes = (
  name: string,
  entry: ScheduleEntry,
  { fields, rules }: Pick<ScheduleEntry, "fields" | "rules">,
  now: number,
): ScheduleEntry => {
  const before = collectDue(name, entry, now)
  const isDue = !before.paused && before.due !== null && before.due <= now
  const line = isDue && before.due !== null ? [...before.line, before.due] : before.line
  return { ...before, fields, rules, line, due: firstDue(rules, now), changedAt: now }
}

const withMissed = (entry: ScheduleEntry, missed: Missed): ScheduleEntry => ({
  ...entry,
  missed: {
    count: entry.missed.count + missed.count,
    latest: [missed, ...entry.missed.latest].slice(0, REMEMBERED),
  },
})

const missing = (entry: ScheduleEntry, dues: ReadonlyArray<number>, why: Missed["why"], more = 0): ScheduleEntry => {
  const [from] = dues
  const to = dues.at(-1)
  return from === undefined || to === undefined
    ? entry
    : withMissed(entry, { from, to, count: dues.length + more, why })
}

/** The entry after the due times up to now came into the line, or are missed by the rule for late ones. */
export const collectDue = (name: string, entry: ScheduleEntry, now: number): ScheduleEntry => {
  const { rules, due } = entry
  if (entry.paused || due === null || postedAt(name, rules, due) > now) return entry
  const { latest, before } = dueTimesBetween(rules.timing, due, now, rules.most + 1)
  // Only the last one may still wait for its part of the jitter: those before it are posted before it is due.
  const newest = latest.at(-1) ?? due
  const waits = postedAt(name, rules, newest) > now
  const over = waits ? latest.slice(0, -1) : latest
  const last = over.at(-1) ?? due
  const next = waits ? newest : (nextDue(rules.timing, newest) ?? null)
  const isTaken = rules.catchUp !== "skip" || now - postedAt(name, rules, last) <= LATE_MS
  const taken = rules.catchUp === "all" ? over.slice(-rules.most) : isTaken ? [last] : []
  const late = over.slice(0, over.length - taken.length)
  const missed =
    before === 0
      ? missing(entry, late, "late")
      : withMissed(entry, { from: due, to: late.at(-1) ?? due, count: before + late.length, why: "late" })
  const line = [...missed.line, ...taken]
  const tooMany = line.length - rules.most
  const cut = tooMany > 0 ? missing(missed, line.slice(0, tooMany), "overlap") : missed
  return { ...cut, due: next, line: tooMany > 0 ? line.slice(tooMany) : line }
}

/** What happens next to the first due time of the line. `hasEnded`: whether the jobs before it have ended. */
export type NextStep = "none" | "post" | "skip" | "wait"

export const nextStepOf = ({ line, rules }: ScheduleEntry, hasEnded: boolean): NextStep =>
  line.length === 0
    ? "none"
    : rules.overlap === "allow" || hasEnded
      ? "post"
      : rules.overlap === "skip"
        ? "skip"
        : "wait"

/** The entry without the first of its line, which is missed since a job before it runs. */
export const skipped = (entry: ScheduleEntry): ScheduleEntry => ({
  ...missing(entry, entry.line.slice(0, 1), "overlap"),
  line: entry.line.slice(1),
})

/** The entry that holds the posting of a due time, which is the first of the line or was asked for by hand. */
export const posting = (
  entry: ScheduleEntry,
  pending: NonNullable<ScheduleEntry["pending"]>,
  due: number,
): ScheduleEntry => ({
  ...entry,
  line: entry.line[0] === due ? entry.line.slice(1) : entry.line,
  pending,
  runs: [{ id: pending.id, due, at: pending.at }, ...entry.runs].slice(0, REMEMBERED),
})

/** The entry after its posting was published. */
export const posted = ({ pending: _, ...entry }: ScheduleEntry): ScheduleEntry => entry

/** The entry after the transport refused its posting for good: that run does not count. */
export const refused = (entry: ScheduleEntry, detail: string): ScheduleEntry => {
  const run = entry.runs.find(({ id }) => id === entry.pending?.id)
  const kept = { ...posted(entry), runs: entry.runs.filter((each) => each !== run) }
  return run === undefined ? kept : withRefused(kept, run.due, detail)
}

/** The entry after no posting could be made for the first due time of the line. */
export const unplanned = (entry: ScheduleEntry, detail: string): ScheduleEntry => {
  const [due, ...line] = entry.line
  return due === undefined ? entry : withRefused({ ...entry, line }, due, detail)
}

const withRefused = (entry: ScheduleEntry, due: number, detail: string): ScheduleEntry =>
  withMissed(entry, { from: due, to: due, count: 1, why: "refused", detail: cut(detail, 500) })
