/** A job as people and programs see it: over HTTP, on the command line and from code. */

import { NO_LIMIT_MS } from "../options/duration.ts"
import { compact, ifGiven, pick } from "../protocol/compact.ts"
import { type JobRecord, lastStart, type RunOutcome, ranFor, type Transition } from "../protocol/record.ts"
import { celeryState, isTerminal } from "../protocol/state.ts"
import { type Job, RECORDED_FIELDS, type RunResults, type TransitionSchema } from "./responses.ts"

/** A job. Times are ISO 8601 in UTC, durations in seconds. */
export type JobView = typeof Job.Type

/** A change of a job's state. */
export type TransitionView = typeof TransitionSchema.Type

/** How a run ended. */
export type RunView = (typeof RunResults.Type)["results"][number]

/**
 * The latest time that a JavaScript Date can hold, in milliseconds. The headers of a external task may name any number.
 */
const MAX_TIME_MS = 8.64e15

/** A time of a record as text. */
export const isoTime = (ms: number): string => new Date(Math.min(Math.max(ms, -MAX_TIME_MS), MAX_TIME_MS)).toISOString()

const isoTimeOf = (ms: number | undefined): string | undefined => ifGiven(ms, isoTime)

export const transitionView = ({
  run,
  n,
  at,
  state,
  attempt,
  worker,
  reason,
  due,
  error,
}: Transition): TransitionView =>
  compact({ id: `${run}.${n}`, at: isoTime(at), state, attempt, worker, reason, due: isoTimeOf(due), error })

const seconds = (ms: number): number => Math.round(ms) / 1_000

export const runView = ({ attempt, startedAt, endedAt, ranMs, ...outcome }: RunOutcome): RunView => ({
  ...outcome,
  attempts: attempt,
  ...(startedAt === undefined ? {} : { started: isoTime(startedAt), ran: seconds(ranMs ?? endedAt - startedAt) }),
  ended: isoTime(endedAt),
})

/**
 * When a job last came into its queue. That a scheduled job is due is no transition of its own: it follows from its time,
 * once the job is not scheduled any more, unless it was ended before.
 */
export const enqueuedAt = ({ state, timeline }: Pick<JobRecord, "state" | "timeline">): number | undefined => {
  for (let at = timeline.length - 1; at >= 0; at--) {
    const step = timeline[at]
    if (step?.state === "queued") return step.at
    if (step?.state !== "scheduled") continue
    const next = timeline[at + 1]
    const isDue = next === undefined ? state === "queued" : next.state === "started" || next.at >= (step.due ?? step.at)
    return isDue ? (step.due ?? step.at) : undefined
  }
  return undefined
}

const modifiedAt = ({ submittedAt, timeline, progress, changedAt = 0 }: JobRecord): number =>
  Math.max(timeline.at(-1)?.at ?? submittedAt, progress?.at ?? 0, changedAt)

const durationsOf = (record: JobRecord): NonNullable<JobView["durations"]> => {
  const { submittedAt, startedAt, endedAt } = record
  const start = lastStart(record)
  const before = start < 0 ? record : { state: record.state, timeline: record.timeline.slice(0, start + 1) }
  const waited = startedAt === undefined ? undefined : startedAt - (enqueuedAt(before) ?? submittedAt)
  const ran = ranFor(record)
  return compact({
    // A job that waits again has started before that.
    waited: waited === undefined || waited < 0 ? undefined : seconds(waited),
    ran: ran === undefined ? undefined : seconds(ran),
    total: endedAt === undefined ? undefined : seconds(endedAt - submittedAt),
  })
}

/** A limit that stands for none is shown as `null`. */
const limitsOf = ({ hard, soft }: NonNullable<JobRecord["timeLimit"]>): NonNullable<JobView["timeLimit"]> =>
  compact({ hard: hard !== undefined && hard * 1_000 >= NO_LIMIT_MS ? null : hard, soft })

const keptUntil = ({ state, endedAt, keepMs = -1 }: JobRecord): number | undefined =>
  isTerminal(state) && endedAt !== undefined && keepMs >= 0 ? endedAt + keepMs : undefined

/** The `after` of a view: an ended job does not show `waiting`, since it waits for no job. */
const afterOf = (
  state: JobRecord["state"],
  { waiting, ...after }: NonNullable<JobRecord["after"]>,
): NonNullable<JobView["after"]> => ({
  ...after,
  ...(state === "deferred" && waiting !== undefined ? { waiting } : {}),
})

const chordOf = (state: JobRecord["state"], { waiting, ...chord }: NonNullable<JobRecord["chord"]>) => ({
  ...chord,
  ...(state === "deferred" && waiting ? { waiting } : {}),
})

const timesOf = (record: JobRecord): JobView["times"] =>
  compact({
    submitted: isoTime(record.submittedAt),
    due: isoTimeOf(record.dueAt),
    enqueued: isoTimeOf(enqueuedAt(record)),
    expires: isoTimeOf(record.expiresAt),
    started: isoTimeOf(record.startedAt),
    ended: isoTimeOf(record.endedAt),
    modified: isoTime(modifiedAt(record)),
    keptUntil: isoTimeOf(keptUntil(record)),
  })

/** What a job shows otherwise than its record has it; every other field of its schema is shown as it is. */
const derived = (record: JobRecord) => {
  const { state, retries, front, progress, repeat, timeLimit, result, reverting, after, chord, waits, signals } = record
  return {
    front: front ? (true as const) : undefined,
    celeryState: celeryState(state, retries),
    attempts: record.attempt,
    progress: progress && { ...progress, at: isoTime(progress.at) },
    times: timesOf(record),
    durations: durationsOf(record),
    repeat: repeat && { ...repeat, left: Math.max(0, repeat.times - repeat.done) },
    timeLimit: timeLimit && limitsOf(timeLimit),
    // A handler that returns nothing has succeeded with null: "no result" and "not there yet" must not look alike.
    result: state === "succeeded" ? (result ?? null) : undefined,
    reverting: reverting?.why,
    waits: waits && { ...waits, until: isoTime(waits.until) },
    signals: signals?.map(({ name, at }) => ({ name, at: isoTime(at) })),
    after: after && afterOf(state, after),
    chord: chord && chordOf(state, chord),
    transitions: record.timeline.map(transitionView),
  }
}

export const jobView = (record: JobRecord): JobView => pick({ ...record, ...derived(record) }, RECORDED_FIELDS)
