/** Failures by their cause, from what workers have kept. Pure: entries and clock come from outside. */
import { refuseCursor } from "../options/refuse.ts"
import { compact } from "../protocol/compact.ts"
import { type FailureEntry, type FailureSlot, type KnownCause, MAX_CAUSES } from "./entries.ts"
import { MAX_IDS } from "./failures.ts"
import type { Cause, CauseDetails, Shares } from "./schema.ts"
import { iso } from "./series.ts"
import { MINUTE_MS, OTHER, SLOT_MS } from "./tally.ts"

export const ERROR_SORTS = ["count", "last", "first"] as const
export const ERROR_STATES = ["open", "quiet"] as const

/** A cause counts as quiet after this long without a failure, in milliseconds. */
const QUIET_MS = 15 * MINUTE_MS
const SPARK_POINTS = 30
const MAX_TASKS = 5
const MAX_SHARES = 5

interface Range {
  readonly from: number
  readonly now: number
}

/** A cause, added up over all workers. */
class MergedCause {
  readonly tasks = new Set<string>()
  readonly queues = new Map<string, number>()
  readonly attempts = new Map<string, number>()
  readonly versions = new Map<string, number>()
  readonly workers = new Map<string, number>()
  readonly spark = new Array<number>(SPARK_POINTS).fill(0)
  readonly jobs = { failed: 0, retrying: 0, dead: 0 }
  /** Ids of jobs, those that failed last in front. */
  readonly ids = new Set<string>()
  count = 0
  first = Number.POSITIVE_INFINITY
  last = 0
  readonly about: FailureEntry["causes"][number]

  constructor(about: FailureEntry["causes"][number]) {
    this.about = about
  }

  add({ slot, worker, version }: FailureSlot, report: FailureEntry["causes"][number], { from, now }: Range): void {
    this.first = Math.min(this.first, report.first)
    this.last = Math.max(this.last, report.last)
    for (const task of report.tasks) if (this.tasks.size < MAX_TASKS) this.tasks.add(task)
    let count = 0
    for (const [minute, failures] of report.minutes.entries()) {
      const at = slot * SLOT_MS + minute * MINUTE_MS
      if (failures <= 0 || at + MINUTE_MS <= from) continue
      count += failures
      const point = Math.min(Math.max(Math.floor(((at - from) / (now - from)) * SPARK_POINTS), 0), SPARK_POINTS - 1)
      this.spark[point] = (this.spark[point] ?? 0) + failures
    }
    this.count += count
    if (count === 0) return
    this.jobs.failed += report.then.failed
    this.jobs.retrying += report.then.retrying
    this.jobs.dead += report.then.dead
    addAll(this.queues, report.queues)
    addAll(this.attempts, report.attempts)
    addAll(this.versions, { [version ?? "(none)"]: count })
    addAll(this.workers, { [worker]: count })
    for (const id of [...report.ids].reverse()) if (this.ids.size < MAX_IDS) this.ids.add(id)
  }
}

const addAll = (to: Map<string, number>, counts: Readonly<Record<string, number>>): void => {
  for (const [key, count] of Object.entries(counts)) to.set(key, (to.get(key) ?? 0) + count)
}

const sharesOf = (counts: ReadonlyMap<string, number>): Shares => {
  const sorted = [...counts]
    .filter(([key]) => key !== OTHER)
    .map(([key, count]) => ({ key, count }))
    .sort((a, b) => b.count - a.count || (a.key < b.key ? -1 : 1))
  const rest = sorted.slice(MAX_SHARES).reduce((sum, { count }) => sum + count, counts.get(OTHER) ?? 0)
  return [...sorted.slice(0, MAX_SHARES), ...(rest > 0 ? [{ key: OTHER, count: rest }] : [])]
}

const statusOf = (last: number, first: number, back: number | undefined, { from, now }: Range): Cause["status"] => {
  if (now - last > QUIET_MS) return "quiet"
  if (first >= from) return "new"
  return back !== undefined && back >= from ? "back" : "ongoing"
}

const merged = (slots: ReadonlyArray<FailureSlot>, range: Range): ReadonlyMap<string, MergedCause> => {
  const all = new Map<string, MergedCause>()
  // Newest first, so that the newest jobs are met first, and the causes of an attack by made-up messages do not push out others.
  for (const slot of [...slots].sort((a, b) => b.slot - a.slot)) {
    for (const report of slot.causes) {
      const cause = all.get(report.fingerprint) ?? new MergedCause(report)
      all.set(report.fingerprint, cause)
      cause.add(slot, report, range)
    }
  }
  return all
}

const causeOf = (fingerprint: string, cause: MergedCause, known: KnownCause | undefined, range: Range): Cause => {
  const { name, template, reason, frame } = cause.about
  const first = Math.min(cause.first, known?.first ?? cause.first)
  return {
    fingerprint,
    name,
    template,
    reason,
    tasks: [...cause.tasks],
    count: cause.count,
    jobs: cause.jobs,
    first: iso(first),
    last: iso(cause.last),
    status: statusOf(cause.last, first, known?.back, range),
    ...compact({ frame }),
    spark: cause.spark,
    sample: [...cause.ids].slice(0, 3),
  }
}

export interface ErrorsQuery {
  /** How far back, in milliseconds. */
  readonly range: number
  readonly task?: string | undefined
  readonly queue?: string | undefined
  readonly state?: (typeof ERROR_STATES)[number] | undefined
  readonly sort?: (typeof ERROR_SORTS)[number] | undefined
  readonly limit: number
  readonly after?: string | undefined
}

const SORTS: Readonly<Record<(typeof ERROR_SORTS)[number], (a: Cause, b: Cause) => number>> = {
  count: (a, b) => b.count - a.count,
  last: (a, b) => Date.parse(b.last) - Date.parse(a.last),
  first: (a, b) => Date.parse(b.first) - Date.parse(a.first),
}

/** The causes of a range. `after`: the fingerprint that ended the page before. Fails with `invalid-input`. */
export const causesOf = (
  slots: ReadonlyArray<FailureSlot>,
  known: ReadonlyArray<KnownCause>,
  query: ErrorsQuery,
  now: number,
): { readonly errors: ReadonlyArray<Cause>; readonly next?: string } => {
  const range = { from: now - query.range, now }
  const { task, queue, state, sort = "last", limit, after } = query
  const since = new Map(known.map((each) => [each.fingerprint, each]))
  const all = [...merged(slots, range)]
    .filter(([, { count }]) => count > 0)
    .sort(([, a], [, b]) => b.last - a.last)
    .slice(0, MAX_CAUSES)
    .filter(
      ([, { tasks }]) => task === undefined || [...tasks].some((each) => each === task || each.startsWith(`${task}.`)),
    )
    .filter(([, { queues }]) => queue === undefined || queues.has(queue))
    .map(([fingerprint, cause]) => causeOf(fingerprint, cause, since.get(fingerprint), range))
    .filter(({ status }) => state === undefined || (status === "quiet") === (state === "quiet"))
    .sort((a, b) => SORTS[sort](a, b) || (a.fingerprint < b.fingerprint ? -1 : 1))
  const before = after === undefined ? -1 : all.findIndex(({ fingerprint }) => fingerprint === after)
  if (after !== undefined && before < 0) return refuseCursor("cursor")
  const errors = all.slice(before + 1, before + 1 + limit)
  const last = errors.at(-1)
  return {
    errors,
    ...(last !== undefined && before + 1 + limit < all.length ? { next: last.fingerprint } : {}),
  }
}

/** One cause; `undefined` where none of the range has this fingerprint. */
export const detailsOf = (
  slots: ReadonlyArray<FailureSlot>,
  known: ReadonlyArray<KnownCause>,
  fingerprint: string,
  range: Range,
): Omit<CauseDetails, "traceback"> | undefined => {
  const cause = merged(slots, range).get(fingerprint)
  if (cause === undefined || cause.count === 0) return undefined
  const since = known.find((each) => each.fingerprint === fingerprint)
  return {
    ...causeOf(fingerprint, cause, since, range),
    ids: [...cause.ids],
    by: {
      version: sharesOf(cause.versions),
      worker: sharesOf(cause.workers),
      attempt: sharesOf(cause.attempts),
      queue: sharesOf(cause.queues),
    },
  }
}
