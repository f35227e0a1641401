/**
 * The settlement of an attempt: its record with the outcome, the follow-ups, and what becomes of the delivery. Pure: clock and
 * randomness come from outside.
 *
 * Retry, callbacks, errbacks and the next run are fixed here, inside the record that decides the outcome.
 */
import * as Result from "effect/Result"
import {
  OWN_HEADER,
  type OwnHeaders,
  postingOf,
  type RepeatHeader,
  renderCompact,
  type Task,
  withFromStep,
} from "../../protocol/headers.ts"
import type { JobPosting, Message } from "../../protocol/message.ts"
import { FRONT_LEVEL, publishKey } from "../../protocol/message.ts"
import {
  earlierWith,
  type JobError,
  type JobRecord,
  nextNumber,
  outcomeOfRun,
  type RecordDraft,
  type Reverting,
  step,
  UNREADABLE,
  withTransition,
} from "../../protocol/record.ts"
import { DUPLICATE_ID, type State } from "../../protocol/state.ts"
import { cut, encoder } from "../../protocol/text.ts"
import { formatTime } from "../../protocol/time.ts"
import type { TraceContext } from "../../protocol/trace-context.ts"
import type { Waits } from "../../protocol/waits.ts"
import type { JobDelivery, Settlement } from "../../transport/job-store/transport.ts"
import { digestOf } from "../same-task.ts"
import { fingerprintOf } from "./fingerprint.ts"

/** An attempt that has ended. */
export interface Attempt {
  readonly token: string
  readonly fence: string
  readonly posting: JobPosting
  readonly task: Task
  /** The started record; for a task that never started, the one it waited with. */
  readonly record: JobRecord
  readonly now: number
  /** The same moment by the clock of the transport, from which the wait for the next attempt is counted; absent: `now`. */
  readonly dueFrom?: number
  readonly keep: Keep
  /** W3C trace context of the attempt itself, where it was traced. */
  readonly trace?: TraceContext
}

/** A delivery that cannot be parsed as a task: its bytes are kept, with the reason. */
export interface Unreadable {
  readonly reason: "undecodable" | "invalid-task"
  readonly problem: string
  /** Kept, because a newer version may be able to read it. */
  readonly kept: { readonly raw: Uint8Array } | { readonly message: Message }
}

/** How long ended jobs are kept, in milliseconds; negative is for ever. */
export interface Keep {
  readonly resultMs: number
  readonly failureMs: number
}

const ended = (attempt: Attempt, record: JobRecord): JobRecord => ({
  ...unended(attempt, record),
  endedAt: attempt.now,
})

/**
 * The record of a job that goes on in a successor: without claims, message and early ack, with the fence of the
 * attempt. The outcomes of earlier runs went into the job's history when this run began.
 */
const unended = (attempt: Attempt, record: JobRecord): JobRecord => {
  const {
    claims: _claims,
    message: _message,
    acked: _acked,
    earlier: _earlier,
    reverting: _reverting,
    ...kept
  } = record
  return { ...kept, fence: attempt.fence }
}

const digestIn = ({ record, posting }: Attempt): string => record.digest ?? digestOf(posting.message.body)

const ack = { kind: "ack" } as const

export const succeeded = (attempt: Attempt, result: unknown, followUps: ReadonlyArray<JobPosting> = []): Settlement => {
  const { record, task, now } = attempt
  const isKept = result !== undefined && !task.ignoreResult
  // The hot path: one copy of the record.
  const ended: RecordDraft = {
    ...(record.claims === undefined && record.message === undefined ? record : unended(attempt, record)),
    state: "succeeded",
    timeline: withTransition(record.timeline, {
      n: nextNumber(record.timeline),
      run: record.run,
      at: now,
      state: "succeeded",
    }),
    fence: attempt.fence,
    endedAt: now,
    keepMs: task.own.resultTtlMs ?? attempt.keep.resultMs,
    digest: digestIn(attempt),
  }
  if (ended.signals !== undefined) delete ended.signals
  const end: { -readonly [Field in keyof Settlement]: Settlement[Field] } = {
    token: attempt.token,
    record: ended,
    then: ack,
  }
  if (isKept) ended.result = result
  else if (result !== undefined) end.ignored = result
  if (followUps.length > 0) {
    ended.followUps = followUps
    end.followUps = followUps
  }
  return end
}

/** An error, and the cause by which jobs that failed alike are found. */
export const because = (error: JobError): Required<Pick<JobRecord, "error" | "fingerprint">> => ({
  error,
  fingerprint: fingerprintOf(error),
})

/** `dead`: why the job becomes a dead letter, where Callboard gave it up and not the application. */
export const failed = (
  attempt: Attempt,
  error: JobError,
  options: { readonly dead?: string; readonly followUps?: ReadonlyArray<JobPosting> } = {},
): Settlement => {
  const { dead, followUps = [] } = options
  return {
    token: attempt.token,
    record: {
      ...ended(attempt, step(attempt.record, { at: attempt.now, state: "failed", reason: dead ?? error.reason })),
      ...because(error),
      ...(dead === undefined ? {} : { dead }),
      digest: digestIn(attempt),
      // Kept, so that it can run again.
      message: attempt.posting.message,
      keepMs: attempt.task.own.failureTtlMs ?? attempt.keep.failureMs,
      ...following(followUps),
    },
    ...following(followUps),
    then: ack,
  }
}

const following = (followUps: ReadonlyArray<JobPosting>): { readonly followUps?: ReadonlyArray<JobPosting> } =>
  followUps.length === 0 ? {} : { followUps }

/** The task's `expires` has passed before it started. */
export const expired = (attempt: Attempt): Settlement => unrun(attempt, { state: "expired" })

/** The end of a cancelled job whose steps were reverted. */
export const cancelledByReverting = (attempt: Attempt): Settlement =>
  unrun(attempt, { state: "cancelled", reason: "reverted" })

/** A revocation applies to the task. */
export const revoked = (attempt: Attempt): Settlement => unrun(attempt, { state: "cancelled", reason: "revoked" })

const unrun = (attempt: Attempt, end: { readonly state: State; readonly reason?: string }): Settlement => ({
  token: attempt.token,
  record: {
    ...ended(attempt, step(attempt.record, { at: attempt.now, ...end })),
    message: attempt.posting.message,
    keepMs: attempt.task.own.failureTtlMs ?? attempt.keep.failureMs,
  },
  then: ack,
})

/** The message of a job's next attempt: one retry more. `expires` stays as it was, as Celery keeps it. */
const nextAttempt = (attempt: Attempt, due: number | undefined): Message => {
  const { message } = attempt.posting
  const { task } = attempt
  const isFollowed = attempt.trace !== undefined
  return {
    ...message,
    headers: {
      ...message.headers,
      // A `ttl` is over once the job has started, and an `expires` once the job has steps that can be reverted.
      ...(task.own.ttlMs === undefined && !attempt.record.reverts ? {} : { expires: null }),
      retries: task.retries + 1,
      eta: etaOf(due),
      // Celery 5.6 sets a retry's parent to the job itself when it had none.
      parent_id: task.parentId ?? task.id,
      ...(isFollowed ? { [OWN_HEADER]: { ...task.own, ...followed(attempt) } } : {}),
    },
  }
}

/** The trace context of this attempt, for a link from the next one. */
const followed = ({ trace }: Attempt): Pick<OwnHeaders, "attempted"> =>
  trace === undefined ? {} : { attempted: trace.traceparent }

/** The message of a job's next run: no retries used; `expires` was about the first one. */
const nextRun = (attempt: Attempt, repeat: RepeatHeader, run: number, due: number | undefined): Message => {
  const { message } = attempt.posting
  const { from: _from, hops: _hops, forwards: _forwards, ...before } = withFromStep(attempt.task.own)
  const own: OwnHeaders = {
    ...before,
    run,
    repeat: { ...repeat, done: repeat.done + 1 },
    ...followed(attempt),
  }
  return { ...message, headers: { ...message.headers, retries: 0, eta: etaOf(due), expires: null, [OWN_HEADER]: own } }
}

const etaOf = (due: number | undefined): string | null => (due === undefined ? null : formatTime(due))

/** The job goes on as `message`, after `waitMs`: the record names its successor before the successor is published. */
const goneOn = (
  attempt: Attempt,
  record: JobRecord,
  message: (due: number | undefined) => Message,
  next: {
    readonly reason: string
    readonly run: number
    readonly waitMs: number
    readonly front: boolean
    readonly error?: JobError
  },
): Settlement => {
  // Without a wait the job is queued at once, and has no due time.
  const due = next.waitMs === 0 ? undefined : (attempt.dueFrom ?? attempt.now) + next.waitMs
  const posting = repost(message(due), attempt.posting.queue, next.front)
  // These fields describe the attempt that is over. Those of the next attempt come from its posting.
  const { dueAt: _due, expiresAt: _expires, front: _front, ...before } = unended(attempt, record)
  return {
    token: attempt.token,
    record: {
      ...step(before, {
        at: attempt.now,
        reason: next.reason,
        run: next.run,
        ...(due === undefined ? { state: "queued" } : { state: "scheduled", due }),
        ...(next.error === undefined ? {} : { error: shortError(next.error) }),
      }),
      retries: posting.retries,
      ...(posting.level >= FRONT_LEVEL ? { front: true } : {}),
      ...(due === undefined ? {} : { dueAt: due }),
      ...(posting.expires === undefined ? {} : { expiresAt: posting.expires }),
      successor: publishKey(posting),
      digest: digestIn(attempt),
      followUps: [posting],
    },
    followUps: [posting],
    then: ack,
  }
}

/** Another attempt after `waitMs`. */
export const retried = (attempt: Attempt, error: JobError, waitMs: number, front = false): Settlement =>
  goneOn(attempt, { ...attempt.record, ...because(error) }, (due) => nextAttempt(attempt, due), {
    reason: "retry",
    run: attempt.posting.run,
    waitMs,
    front: front || attempt.posting.level >= FRONT_LEVEL,
    error,
  })

/** Longest message of an error in the timeline of a job, in characters: the record has the whole of the last one. */
const SHORT = 300

const shortError = ({ name, message }: JobError): Pick<JobError, "name" | "message"> => ({
  name,
  message: cut(message, SHORT),
})

/**
 * Hands the task back, so that the job's next delivery reverts its steps. That delivery runs the handler again, since the
 * functions that revert come from there; so does the one after it where a worker dies meanwhile.
 */
export const reverting = (attempt: Attempt, reverting: Reverting): Settlement => ({
  token: attempt.token,
  record: { ...unclaimed(attempt, "reverting"), reverting },
  then: { kind: "hand-back", delay: 0 },
})

/** The job continues, in the same attempt, once what it waits for has come. */
export const suspended = (attempt: Attempt, waits: Waits): Settlement => {
  const { worker: _worker, ...record } = attempt.record
  const waitMs = Math.max(1, waits.until - (attempt.dueFrom ?? attempt.now))
  return goneOn(
    attempt,
    { ...record, waits, attempt: Math.max(0, record.attempt - 1) },
    (due) => nextPart(attempt, due),
    { reason: "suspended", run: record.run, waitMs, front: attempt.posting.level >= FRONT_LEVEL },
  )
}

/** The message with which a suspended job continues: one hop more. A job that has begun does not expire. */
const nextPart = (attempt: Attempt, due: number | undefined): Message => {
  const { message } = attempt.posting
  const own: OwnHeaders = { ...attempt.task.own, ...followed(attempt), hops: (attempt.task.own.hops ?? 0) + 1 }
  return { ...message, headers: { ...message.headers, expires: null, eta: etaOf(due), [OWN_HEADER]: own } }
}

/** The next run of a repeating job, `waitMs` from now. Callbacks are submitted only after the last run. */
export const repeated = (attempt: Attempt, repeat: RepeatHeader, waitMs: number, result: unknown): Settlement => {
  const { posting, now, task } = attempt
  const run = posting.run + 1
  const done = step(attempt.record, { at: now, state: "succeeded" })
  const isKept = (task.own.resultTtlMs ?? attempt.keep.resultMs) !== 0
  const ended = isKept
    ? outcomeOfRun({ ...done, endedAt: now, fence: attempt.fence, ...(task.ignoreResult ? {} : { result }) })
    : undefined
  const next = goneOn(attempt, done, (due) => nextRun(attempt, repeat, run, due), {
    reason: "repeat",
    run,
    waitMs,
    front: false,
  })
  if (next.record === undefined) return next
  // These say how the run that is over went.
  const { reverts: _reverts, startedAt: _started, worker: _worker, progress: _progress, ...record } = next.record
  return {
    ...next,
    record: {
      ...record,
      repeat: { times: repeat.times, done: repeat.done + 1 },
      ...(ended === undefined ? {} : earlierWith({}, ended)),
    },
  }
}

/** Moves a task to the queue of another language's workers. */
export const forwarded = (attempt: Attempt, queue: string): Settlement => {
  const { message } = attempt.posting
  const { hops = 0, forwards = 0 } = attempt.task.own
  const own: OwnHeaders = { ...attempt.task.own, hops: hops + 1, forwards: forwards + 1 }
  const posting = repost(
    { ...message, headers: { ...message.headers, [OWN_HEADER]: own } },
    queue,
    attempt.posting.level >= FRONT_LEVEL,
  )
  const record = step(attempt.record, { at: attempt.now, state: "queued", reason: "forwarded" })
  return {
    token: attempt.token,
    record: { ...unended(attempt, record), queue, successor: publishKey(posting), followUps: [posting] },
    followUps: [posting],
    then: ack,
  }
}

/** The posting of the next attempt or run. `front` puts it before every priority, as does the task's own `front`. */
const repost = (message: Message, queue: string, front: boolean): JobPosting => {
  const posting = postingOf(message, queue)
  // The headers were parsed before, and only fields that this file writes have changed, so they parse again.
  if (Result.isFailure(posting)) throw new Error(posting.failure.message)
  return front ? { ...posting.success, level: FRONT_LEVEL } : posting.success
}

/**
 * Hands a task back without counting the attempt, to be delivered again after `delayMs`. `stored`: a claim or a progress report
 * was stored, which the record takes back first.
 */
export const handedBack = (attempt: Attempt, stored: boolean, delayMs: number): Settlement => ({
  token: attempt.token,
  ...(stored ? { record: unclaimed(attempt) } : {}),
  then: { kind: "hand-back", delay: delayMs },
})

const unclaimed = (attempt: Attempt, reason = "handed-back"): JobRecord => {
  const { startedAt: _started, worker: _worker, progress: _progress, expiresAt, ...kept } = attempt.record
  // A `ttl` is over once the job has started.
  const expiry = expiresAt === undefined || attempt.task.own.ttlMs !== undefined ? undefined : { expiresAt }
  return {
    ...step({ ...kept, ...expiry }, { at: attempt.now, state: "queued", reason }),
    fence: attempt.fence,
    // The hand-back counts neither as an attempt nor as a claim.
    attempt: Math.max(0, attempt.record.attempt - 1),
    claims: Math.max(0, (attempt.record.claims ?? 1) - 1),
  }
}

/** The dead letter of a delivery that is no task, under its id; without one, the id is made of its fence. */
export const unreadable = (
  delivery: Pick<JobDelivery, "token" | "fence" | "queue"> & { readonly id: string | undefined },
  { reason, problem, kept }: Unreadable,
  now: number,
  keep: Keep,
): Settlement => ({
  token: delivery.token,
  record: {
    ...because({ name: "Unreadable", message: problem, reason }),
    id: delivery.id ?? `dead-${delivery.fence.replace(/[^A-Za-z0-9_-]/g, "-")}`,
    task: UNREADABLE,
    meth: null,
    name: UNREADABLE,
    queue: delivery.queue,
    priority: 0,
    state: "failed",
    run: 1,
    attempt: 0,
    retries: 0,
    fence: delivery.fence,
    submittedAt: now,
    endedAt: now,
    dead: reason,
    timeline: [{ n: 1, run: 1, at: now, state: "failed", reason }],
    keepMs: keep.failureMs,
    ...kept,
  },
  then: ack,
})

/**
 * The dead letter of a task under the id of another job, whose record stays as it is. It has an id of its own, made of the
 * task, under which the task can run: as one that comes from outside, which no job waits for.
 */
export const duplicate = (attempt: Attempt, by: JobRecord): Settlement => {
  const { posting, task, now } = attempt
  const { run: _run, hops: _hops, forwards: _forwards, from: _from, ...others } = withFromStep(task.own)
  const { attempted: _attempted, ...rest } = others
  const { after: _after, member: _member, chord: _chord, link: _link, ...own } = rest
  const made = JSON.stringify([posting.id, posting.run, posting.retries, task.task, task.meth, digestIn(attempt)])
  const id = `duplicate-${digestOf(encoder.encode(made))}`
  const alone = { ...task, id, rootId: id, parentId: null, group: null, groupIndex: null, retries: 0, eta: null, own }
  const { message } = posting
  const why = `id ${posting.id} belongs to another job (${by.name}, ${by.state}), which is not changed: give each task its own id`
  const { name, queue, priority, submittedAt } = attempt.record
  return {
    token: attempt.token,
    record: {
      ...because({ name: "DuplicateId", message: why, reason: DUPLICATE_ID }),
      id,
      task: task.task,
      meth: task.meth,
      name,
      queue,
      priority,
      state: "failed",
      run: 1,
      attempt: 0,
      retries: 0,
      fence: attempt.fence,
      submittedAt,
      endedAt: now,
      dead: DUPLICATE_ID,
      timeline: [{ n: 1, run: 1, at: now, state: "failed", reason: DUPLICATE_ID }],
      keepMs: attempt.keep.failureMs,
      message: {
        ...message,
        headers: renderCompact(alone),
        properties: { ...message.properties, correlation_id: id },
      },
    },
    then: ack,
  }
}
