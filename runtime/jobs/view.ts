/** A job as people and programs see it: over HTTP, on the command line and from code. */

import { NO_LIMIT_MS } from "../options/duration.ts"
import type { BookHeader } from "../protocol/headers.ts"
import {
  type JobError,
  type JobRecord,
  lastStart,
  type RunOutcome,
  ranFor,
  type Transition,
} from "../protocol/record.ts"
import { celeryState, isTerminal, type State } from "../protocol/state.ts"

/** Times are ISO 8601 in UTC. */
export interface JobView {
  readonly id: string
  readonly task: string
  readonly meth: string | null
  readonly name: string
  readonly queue: string
  readonly priority: number
  readonly front?: true
  readonly state: State
  /** The word that a Celery client knows for this state. */
  readonly celeryState: string
  readonly run: number
  readonly attempts: number
  readonly retries: number
  readonly progress?: { readonly fraction: number; readonly detail?: unknown; readonly at: string }
  readonly times: {
    readonly submitted: string
    readonly due?: string
    readonly expires?: string
    /** When it last came into its queue, to be taken at once. */
    readonly enqueued?: string
    /** Start of its last attempt. */
    readonly started?: string
    readonly ended?: string
    readonly modified?: string
    /** Until when the record of an ended job is kept; absent: for ever. */
    readonly keptUntil?: string
  }
  /** In seconds. */
  readonly durations?: {
    /** From its queue to the start of its last attempt. */
    readonly waited?: number
    /** From the start of its last attempt to the end. */
    readonly ran?: number
    /** From its submission to the end. */
    readonly total?: number
  }
  /** How often it is to run again after a success. */
  readonly repeat?: { readonly times: number; readonly done: number; readonly left: number }
  /** The time limits that the task asks for, in seconds; `null`: none. Absent: those of its method. */
  readonly timeLimit?: { readonly hard?: number | null; readonly soft?: number }
  readonly result?: unknown
  readonly error?: JobError
  /** Names the cause of the error: the same for all jobs that failed alike. */
  readonly fingerprint?: string
  /** Set on dead letters: why the task was given up. */
  readonly dead?: string
  /** Why the job's steps are being undone: it has failed, or was cancelled. Absent while they are not. */
  readonly reverting?: "failed" | "cancelled"
  /** Set where all steps with a revert were undone. */
  readonly reverted?: true
  /** Names of the steps with a revert that were not undone. */
  readonly unreverted?: ReadonlyArray<string>
  readonly worker?: string
  readonly parentId?: string
  readonly rootId?: string
  readonly group?: string
  /**
   * Jobs that it waits for, or waited for. `waiting`, present while it is deferred: the jobs among them that have not
   * ended, or not as they must.
   */
  readonly after?: {
    readonly ids: ReadonlyArray<string>
    readonly allowFailure?: boolean
    readonly waiting?: ReadonlyArray<string>
  }
  /** On the body of a chord. `waiting`, present while it is deferred: its members have not all ended. */
  readonly chord?: {
    readonly size: number
    readonly allowFailure?: boolean
    readonly immutable?: boolean
    readonly waiting?: boolean
  }
  /** What the submitter wrote; where a single job is read, and nothing was written, the call as text. */
  readonly description?: string
  readonly details?: Readonly<Record<string, unknown>>
  readonly book?: BookHeader
  /** Name of the client that submitted it; where a single job is read whose task is kept, else its process. */
  readonly sender?: string
  readonly meta?: Readonly<Record<string, unknown>>
  /**
   * What the task holds, where a single job is read. Jobs that have succeeded do not keep it. What the method hides by
   * `redact` is `***`.
   */
  readonly input?: unknown
  /** Its custom headers, likewise. */
  readonly headers?: Readonly<Record<string, unknown>>
  /** Times to live that the task asks for, in seconds, likewise; -1 is for ever. */
  readonly ttl?: number
  readonly resultTtl?: number
  readonly failureTtl?: number
  readonly transitions: ReadonlyArray<TransitionView>
}

export interface TransitionView {
  /** `<run>.<n>`: where a stream of events resumes after. */
  readonly id: string
  readonly at: string
  readonly state: State
  readonly attempt?: number
  readonly worker?: string
  readonly reason?: string
  readonly due?: string
  /** The error of an attempt that another one follows. */
  readonly error?: { readonly name: string; readonly message: string }
}

/** How a run ended. */
export interface RunView {
  readonly run: number
  readonly type: RunOutcome["type"]
  /** Attempts of the job until then. */
  readonly attempts: number
  readonly started?: string
  readonly ended: string
  /** In seconds. */
  readonly ran?: number
  readonly worker?: string
  /** Names the attempt that ended the run, among all of the job. */
  readonly execution?: string
  readonly result?: unknown
  /** Its result had more than 64 KiB, and is not kept beyond the run. */
  readonly omitted?: true
  readonly error?: JobError
}

/**
 * The latest time that a JavaScript Date can hold, in milliseconds. The headers of a foreign task may name any number.
 */
const MAX_TIME_MS = 8.64e15

/** A time of a record as text. */
export const isoTime = (ms: number): string => new Date(Math.min(Math.max(ms, -MAX_TIME_MS), MAX_TIME_MS)).toISOString()

export const transitionView = (transition: Transition): TransitionView => ({
  id: `${transition.run}.${transition.n}`,
  at: isoTime(transition.at),
  state: transition.state,
  ...(transition.attempt === undefined ? {} : { attempt: transition.attempt }),
  ...(transition.worker === undefined ? {} : { worker: transition.worker }),
  ...(transition.reason === undefined ? {} : { reason: transition.reason }),
  ...(transition.due === undefined ? {} : { due: isoTime(transition.due) }),
  ...(transition.error === undefined ? {} : { error: transition.error }),
})

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
  return {
    // A job that waits again has started before that.
    ...(waited === undefined || waited < 0 ? {} : { waited: seconds(waited) }),
    ...(ran === undefined ? {} : { ran: seconds(ran) }),
    ...(endedAt === undefined ? {} : { total: seconds(endedAt - submittedAt) }),
  }
}

/** A limit that stands for none is shown as `null`. */
const limitsOf = ({ hard, soft }: NonNullable<JobRecord["timeLimit"]>): NonNullable<JobView["timeLimit"]> => ({
  ...(hard === undefined ? {} : { hard: hard * 1_000 >= NO_LIMIT_MS ? null : hard }),
  ...(soft === undefined ? {} : { soft }),
})

const keptUntil = ({ state, endedAt, keepMs = -1 }: JobRecord): string | undefined =>
  isTerminal(state) && endedAt !== undefined && keepMs >= 0 ? isoTime(endedAt + keepMs) : undefined

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

export const jobView = (record: JobRecord): JobView => {
  const enqueued = enqueuedAt(record)
  const until = keptUntil(record)
  const { repeat, timeLimit } = record
  return {
    id: record.id,
    task: record.task,
    meth: record.meth,
    name: record.name,
    queue: record.queue,
    priority: record.priority,
    ...(record.front ? { front: true } : {}),
    state: record.state,
    celeryState: celeryState(record.state, record.retries),
    run: record.run,
    attempts: record.attempt,
    retries: record.retries,
    ...(record.progress === undefined ? {} : { progress: { ...record.progress, at: isoTime(record.progress.at) } }),
    times: {
      submitted: isoTime(record.submittedAt),
      ...(record.dueAt === undefined ? {} : { due: isoTime(record.dueAt) }),
      ...(record.expiresAt === undefined ? {} : { expires: isoTime(record.expiresAt) }),
      ...(enqueued === undefined ? {} : { enqueued: isoTime(enqueued) }),
      ...(record.startedAt === undefined ? {} : { started: isoTime(record.startedAt) }),
      ...(record.endedAt === undefined ? {} : { ended: isoTime(record.endedAt) }),
      modified: isoTime(modifiedAt(record)),
      ...(until === undefined ? {} : { keptUntil: until }),
    },
    durations: durationsOf(record),
    ...(repeat === undefined ? {} : { repeat: { ...repeat, left: Math.max(0, repeat.times - repeat.done) } }),
    ...(timeLimit === undefined ? {} : { timeLimit: limitsOf(timeLimit) }),
    // A handler that returns nothing has succeeded with null: "no result" and "not there yet" must not look alike.
    ...(record.state === "succeeded" ? { result: record.result ?? null } : {}),
    ...(record.error === undefined ? {} : { error: record.error }),
    ...(record.fingerprint === undefined ? {} : { fingerprint: record.fingerprint }),
    ...(record.dead === undefined ? {} : { dead: record.dead }),
    ...(record.undo === undefined ? {} : { reverting: record.undo.why }),
    ...(record.reverted ? { reverted: true } : {}),
    ...(record.unreverted === undefined ? {} : { unreverted: record.unreverted }),
    ...(record.worker === undefined ? {} : { worker: record.worker }),
    ...(record.parentId === undefined ? {} : { parentId: record.parentId }),
    ...(record.rootId === undefined ? {} : { rootId: record.rootId }),
    ...(record.group === undefined ? {} : { group: record.group }),
    ...(record.after === undefined ? {} : { after: afterOf(record.state, record.after) }),
    ...(record.chord === undefined ? {} : { chord: chordOf(record.state, record.chord) }),
    ...(record.description === undefined ? {} : { description: record.description }),
    ...(record.details === undefined ? {} : { details: record.details }),
    ...(record.book === undefined ? {} : { book: record.book }),
    ...(record.sender === undefined ? {} : { sender: record.sender }),
    ...(record.meta === undefined ? {} : { meta: record.meta }),
    transitions: record.timeline.map(transitionView),
  }
}
