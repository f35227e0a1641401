/**
 * The record of a job: what is stored about it, and how it is encoded.
 *
 * A job that waits in a queue needs no stored record: {@link recordOfPosting} derives it from its task. A record with an
 * outcome holds everything that follows from it (retry, callbacks, errbacks, next of the chain) as complete postings, so
 * that a crash between two writes neither loses nor doubles a follow-up.
 */
import * as Result from "effect/Result"
import { decodeBase64, encodeBase64 } from "./exact.ts"
import { isObject } from "./guards.ts"
import {
  type BookHeader,
  type ChordHeader,
  type InvalidTask,
  type MemberHeader,
  parseTask,
  type Task,
} from "./headers.ts"
import { DEFAULT_PRIORITY, type Headers, type JobPosting, type Message, type Properties } from "./message.ts"
import type { MetaChange } from "./meta-patch.ts"
import { isState, isTerminal, type State } from "./state.ts"
import { byteLength } from "./text.ts"
import type { Mailbox, Waits } from "./waits.ts"

/** One change of state of a job. Its event id is `<run>.<n>`. */
export interface Transition {
  /** Number of the transition, from 1, over all runs; transitions that are not kept any more count, too. */
  readonly n: number
  readonly run: number
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly state: State
  readonly attempt?: number
  readonly worker?: string
  /** The version of the application that this worker runs, where it was told. */
  readonly version?: string
  /**
   * Why: `retry`, `suspended`, `signalled`, `called`, `handed-back`, `lease-lost`, `rerun`, `released`, `purged`, `stopped`, `outcome-refused`, or the reason of a
   * failure.
   */
  readonly reason?: string
  /** When a scheduled job is due, in milliseconds since the epoch. */
  readonly due?: number
  /** The error of the attempt that ended, where another attempt follows; that of the last attempt is in the record. */
  readonly error?: Pick<JobError, "name" | "message">
}

/** Most transitions that a record keeps: the newest ones. */
export const TIMELINE_LENGTH = 50

/**
 * Whether a job belongs to a task name: `text` means all methods of that actor, `text.count` one, however the job was
 * submitted.
 */
export const isOfTask = (record: Pick<JobRecord, "task" | "meth">, task: string): boolean =>
  record.task === task || (record.meth !== null && `${record.task}.${record.meth}` === task)

/** Why a job failed, as plain JSON. */
export interface JobError {
  /** Error tag or class name: what `retry.on` matches. */
  readonly name: string
  readonly message: string
  /**
   * Machine-readable cause: `handler`, `invalid-input`, `result-unserialisable`, `result-too-large`, `timeout`,
   * `worker-lost`, `unknown-actor` …
   */
  readonly reason: string
  readonly traceback?: string
  /** Where in the input the problem is, for `invalid-input`. */
  readonly field?: string
  readonly cause?: { readonly name: string; readonly message: string }
  /** The errors that an `AggregateError`, the error itself or its cause, is made of: the first ones, and how many more. */
  readonly errors?: ReadonlyArray<{ readonly name: string; readonly message: string }>
}

export interface Progress {
  /** 0–1. */
  readonly fraction: number
  readonly detail?: unknown
  readonly at: number
}

/** Task and name of a job of which nothing can be read. */
export const UNREADABLE = "(unreadable)"

/** How a run ended. */
export interface RunOutcome {
  readonly run: number
  readonly type: "SUCCESSFUL" | "FAILED" | "STOPPED" | "CANCELLED" | "EXPIRED"
  readonly startedAt?: number
  readonly endedAt: number
  /** How long its last attempt ran, where the run ended later than that. */
  readonly ranMs?: number
  /** Attempts of the job until then, over all runs. */
  readonly attempt: number
  readonly worker?: string
  /** Fence of the attempt that ended the run; absent where it was ended from outside. */
  readonly execution?: string
  readonly result?: unknown
  /** The result was too large to be kept once the next run had begun. */
  readonly omitted?: true
  readonly error?: JobError
}

/** Most outcomes of runs that are kept. */
export const MAX_OUTCOMES = 10

/**
 * Why the steps of a job are reverted: the job failed for good, or was cancelled. `sure`: no step was under way, so a
 * step without an outcome has not run.
 */
export type Reverting =
  | { readonly why: "cancelled"; readonly sure?: true }
  /** `dead`: why the job becomes a dead letter. */
  | { readonly why: "failed"; readonly error: JobError; readonly dead?: string; readonly sure?: true }

/** Jobs that a job waits for, or waited for before it could start. */
export interface Dependencies {
  readonly ids: ReadonlyArray<string>
  /** Whether a failure of these jobs will do, too. Absent: false. */
  readonly allowFailure?: boolean
  /** The ids for which the job still waits. Absent once it waits for none. */
  readonly waiting?: ReadonlyArray<string>
}

/**
 * The record of a job. Times are milliseconds since the epoch. All fields but message, raw and follow-ups are plain
 * JSON.
 */
export interface JobRecord extends Mailbox {
  readonly id: string
  readonly task: string
  readonly meth: string | null
  /** Name for people: `shadow`, else task and method. */
  readonly name: string
  readonly queue: string
  /** 0–9. */
  readonly priority: number
  readonly front?: boolean
  readonly state: State
  readonly run: number
  /** Number of attempts that have begun, for people; 0 before the first. */
  readonly attempt: number
  readonly retries: number
  /** Fence of the delivery that wrote this record; empty where it was written from outside of a delivery. */
  readonly fence: string
  /**
   * Claims since the last outcome, and the first attempt where it is known to have begun without one. The bound on lost
   * workers (`lostCap`) counts them.
   */
  readonly claims?: number
  /**
   * Set while a job runs whose task was acked early: the task is not in its queue any more, so no other worker can get
   * it.
   */
  readonly acked?: boolean
  /**
   * A step with a revert has begun in this run, or is about to begin, or is kept from the run before: before the job ends
   * without success, its steps are reverted.
   */
  readonly reverts?: true
  /** Why the job's steps are being reverted; set from then until the job ends. */
  readonly reverting?: Reverting
  /** Set on a job that was cancelled to be ended at once: the process of a worker that its handler blocks ends. */
  readonly terminated?: true
  /** Set where all steps with a revert were reverted. */
  readonly reverted?: true
  /** Names of the steps with a revert that were not reverted, although the job did not succeed. */
  readonly unreverted?: ReadonlyArray<string>
  /** What the job waits for while it is suspended. */
  readonly waits?: Waits
  /** Publish key of the posting by which the job goes on (a retry, or after a wait): deliveries of older postings are over. */
  readonly successor?: string
  readonly submittedAt: number
  readonly dueAt?: number
  readonly expiresAt?: number
  readonly startedAt?: number
  readonly endedAt?: number
  readonly progress?: Progress
  readonly result?: unknown
  readonly error?: JobError
  /** Names the cause of the error: the same for all jobs that failed alike. */
  readonly fingerprint?: string
  /** Set on dead letters: the reason why the task was given up, although the application did not decide so. */
  readonly dead?: string
  readonly worker?: string
  readonly parentId?: string
  readonly rootId?: string
  readonly group?: string
  readonly after?: Dependencies
  /** Set on members of a chord. */
  readonly member?: MemberHeader
  /** Set on the body of a chord. `waiting`: the results of the members have not been handed over. */
  readonly chord?: ChordHeader & { readonly waiting?: true }
  readonly meta?: Readonly<Record<string, unknown>>
  /** Set while a task of the job waits or runs whose worker may not know how its meta data was changed. */
  readonly metaChange?: MetaChange
  /** When the meta data was last changed from outside. */
  readonly changedAt?: number
  readonly description?: string
  readonly details?: Readonly<Record<string, unknown>>
  readonly book?: BookHeader
  /** Name of the client that submitted the task, where it has one. */
  readonly sender?: string
  /** The time limits that the task asks for, in seconds. */
  readonly timeLimit?: { readonly hard?: number; readonly soft?: number }
  /** How often the job is to run again, and how often it has. */
  readonly repeat?: { readonly times: number; readonly done: number }
  /**
   * Outcomes of earlier runs that are not in the job's history yet, newest first: they get there when the next run begins,
   * so that a job that runs once costs no write for them.
   */
  readonly earlier?: ReadonlyArray<RunOutcome>
  /** Oldest first, at most {@link TIMELINE_LENGTH}. */
  readonly timeline: ReadonlyArray<Transition>
  /** How long to keep the record, in milliseconds from `endedAt`. Negative: for ever. */
  readonly keepMs?: number
  /** Digest of the task's body, once the job was claimed or has succeeded: another task may come under its id. */
  readonly digest?: string
  /** Set where the record is not kept any more: only id, state, run, fence, successor and follow-ups are still valid. */
  readonly tombstone?: boolean
  /** Set on the tombstone of a job that was deleted: it has no follow-ups, and a task with its id becomes the next run. */
  readonly deleted?: boolean
  /** Set while the record is stored and the publishing of its task is not confirmed yet. */
  readonly accepting?: boolean
  /** Postings that are published after this record is stored, exactly once per publish key. */
  readonly followUps?: ReadonlyArray<JobPosting>
  /** The task. Kept for jobs that have failed, expired or were cancelled, so that they can run again. */
  readonly message?: Message
  /** The bytes from the queue, where they could not be decoded. */
  readonly raw?: Uint8Array
}

/** A record that nothing but its maker has yet, so that it may still be changed. */
export type RecordDraft = { -readonly [Field in keyof JobRecord]: JobRecord[Field] }

/** Number of the transition that follows in a timeline. */
export const nextNumber = (timeline: ReadonlyArray<Transition>): number => (timeline[timeline.length - 1]?.n ?? 0) + 1

/** A timeline with one more transition; keeps the newest {@link TIMELINE_LENGTH}. */
export const withTransition = (
  timeline: ReadonlyArray<Transition>,
  transition: Transition,
): ReadonlyArray<Transition> =>
  timeline.length < TIMELINE_LENGTH ? [...timeline, transition] : [...timeline.slice(1 - TIMELINE_LENGTH), transition]

/** The record with one more transition, and its state. */
export const step = (
  record: JobRecord,
  change: Omit<Transition, "n" | "run"> & { readonly run?: number },
): JobRecord => {
  const { run = record.run, ...rest } = change
  const transition: Transition = { ...rest, run, n: nextNumber(record.timeline) }
  return { ...record, run, state: change.state, timeline: withTransition(record.timeline, transition) }
}

/** What is known of an attempt as it begins. */
export interface Beginning {
  readonly fence: string
  readonly worker: string
  readonly at: number
  readonly version?: string | undefined
}

/** The record of a job as its next attempt begins. */
export const started = (before: JobRecord, attempt: Beginning): JobRecord =>
  start(withoutEarlierAttempt(before), attempt)

/**
 * {@link started}, for the first attempt of a job: the record of the waiting task becomes the one of the attempt, since a copy
 * for each job would cost time.
 */
export const start = (record: RecordDraft, { fence, worker, at, version }: Beginning): JobRecord => {
  const attempt = record.attempt + 1
  const transition: { -readonly [Field in keyof Transition]: Transition[Field] } = {
    n: nextNumber(record.timeline),
    run: record.run,
    at,
    state: "started",
    attempt,
    worker,
  }
  if (version !== undefined) transition.version = version
  record.state = "started"
  record.timeline = withTransition(record.timeline, transition)
  record.attempt = attempt
  record.fence = fence
  record.worker = worker
  record.startedAt = at
  return record
}

/** The record without what an earlier attempt left in it. */
const withoutEarlierAttempt = (before: JobRecord): RecordDraft => {
  const {
    successor: _successor,
    followUps: _followUps,
    error: _error,
    fingerprint: _fingerprint,
    progress: _progress,
    endedAt: _ended,
    acked: _acked,
    waits: _waits,
    // The attempt knows the meta data as it is now.
    metaChange: _change,
    ...kept
  } = before
  return kept
}

/**
 * Number of attempts since the last outcome that have begun and are not known to have ended. The very first attempt of a
 * job writes no claim; it counts where its worker has noted that it began.
 */
export const openAttempts = ({ claims, state }: Pick<JobRecord, "claims" | "state">): number =>
  claims ?? (state === "started" ? 1 : 0)

/** {@link started}, for a delivery that claims its job: one more claim is counted. */
export const claimed = (before: JobRecord, attempt: Beginning): JobRecord => ({
  ...started(before, attempt),
  claims: openAttempts(before) + 1,
})

/** Whether, by its record, the delivery with this fence has claimed the job already. */
export const isClaimOf = ({ state, fence, claims = 0 }: JobRecord, by: string): boolean =>
  state === "started" && fence === by && claims > 0

/** Whether the task of this posting was acked early and runs: if it is delivered again, it must not run again. */
export const isTakenEarly = (
  { acked, state, run, retries }: Pick<JobRecord, "acked" | "state" | "run" | "retries">,
  posting: Pick<JobPosting, "run" | "retries">,
): boolean => acked === true && state === "started" && run === posting.run && retries >= posting.retries

/**
 * Reverts {@link claimed}: attempt, claims, state and timeline are as before, so that claiming again gives the same record.
 * What the claim has removed (error, successor, follow-ups, the fence before it) is not restored: no claim needs it.
 */
export const unclaimed = (record: JobRecord): JobRecord => {
  const { worker: _worker, startedAt: _started, progress: _progress, ...kept } = record
  const timeline = record.timeline.slice(0, -1)
  return {
    ...kept,
    state: timeline.at(-1)?.state ?? "queued",
    attempt: Math.max(0, record.attempt - 1),
    fence: "",
    claims: Math.max(0, (record.claims ?? 0) - 1),
    timeline,
  }
}

const typeOf = ({ state, timeline }: JobRecord): RunOutcome["type"] => {
  switch (state) {
    case "succeeded":
      return "SUCCESSFUL"
    case "cancelled":
      return timeline.at(-1)?.reason === "stopped" ? "STOPPED" : "CANCELLED"
    case "expired":
      return "EXPIRED"
    default:
      return "FAILED"
  }
}

/** Where the transitions tell of the start of the last attempt; -1 where they do not. */
export const lastStart = ({ timeline }: Pick<JobRecord, "timeline">): number =>
  timeline.findLastIndex(({ state }) => state === "started")

/** How long the last attempt of an ended job ran: a job may have ended long after it, while it waited for the next one. */
export const ranFor = (record: Pick<JobRecord, "timeline" | "startedAt" | "endedAt">): number | undefined => {
  const { timeline, startedAt, endedAt } = record
  if (startedAt === undefined || endedAt === undefined) return undefined
  const start = lastStart(record)
  return ((start < 0 ? undefined : timeline[start + 1])?.at ?? endedAt) - startedAt
}

/** How the run of a record ended; `undefined` while it goes on. */
export const outcomeOfRun = (record: JobRecord): RunOutcome | undefined => {
  const { run, state, attempt, startedAt, endedAt, worker, fence, result, error } = record
  if (!isTerminal(state) || endedAt === undefined) return undefined
  const ranMs = ranFor(record)
  return {
    run,
    type: typeOf(record),
    ...(startedAt === undefined ? {} : { startedAt }),
    endedAt,
    ...(ranMs === undefined || startedAt === undefined || ranMs === endedAt - startedAt ? {} : { ranMs }),
    attempt,
    ...(worker === undefined ? {} : { worker }),
    ...(fence === "" ? {} : { execution: fence }),
    ...(state === "succeeded" ? { result: result ?? null } : {}),
    ...(error === undefined ? {} : { error }),
  }
}

/** Largest result that stays in the history of a job, in bytes of its JSON: ten of them fit into one entry of each store. */
const MAX_HISTORY = 64 * 1024

/** An outcome as it is kept once the next run has begun. */
const inHistory = (outcome: RunOutcome): RunOutcome => {
  const { result: given } = outcome
  if (given === undefined || byteLength(JSON.stringify(given)) <= MAX_HISTORY) return outcome
  const { result: _result, ...rest } = outcome
  return { ...rest, omitted: true }
}

/** The outcomes of all runs until now that are not in the history yet, for the record of the next run. */
export const earlierWith = (
  { earlier = [] }: Pick<JobRecord, "earlier">,
  outcome: RunOutcome | undefined,
): Pick<JobRecord, "earlier"> =>
  outcome === undefined ? { earlier } : { earlier: [inHistory(outcome), ...earlier].slice(0, MAX_OUTCOMES) }

/**
 * The tombstone of a record that is not kept any more. Its follow-ups stay: a worker may have died before they were
 * published, and the next delivery finds them only here. Postings of the job itself are dropped.
 */
export const tombstoneOf = (record: JobRecord): JobRecord => {
  const {
    result: _result,
    error: _error,
    fingerprint: _fingerprint,
    message: _message,
    raw: _raw,
    meta: _meta,
    metaChange: _change,
    description: _description,
    details: _details,
    earlier: _earlier,
    progress: _progress,
    reverting: _reverting,
    unreverted: _left,
    waits: _waits,
    signals: _signals,
    followUps = [],
    ...kept
  } = record
  const others = followUps.filter(({ id }) => id !== record.id)
  return { ...kept, timeline: [], tombstone: true, ...(others.length === 0 ? {} : { followUps: others }) }
}

/**
 * The record of a job that waits in a queue and about which nothing else is stored yet.
 * `now` decides between scheduled and queued. Fails when the headers make no task.
 */
export const recordOfPosting = (
  posting: Omit<JobPosting, "level">,
  now: number,
): Result.Result<JobRecord, InvalidTask> => {
  const parsed = parseTask(posting.message)
  return Result.isFailure(parsed)
    ? Result.fail(parsed.failure)
    : Result.succeed(recordOfTask(posting, parsed.success, now))
}

/** {@link recordOfPosting} for headers that are parsed already. */
export const recordOfTask = (posting: Omit<JobPosting, "level">, task: Task, now: number): RecordDraft => {
  const own = task.own
  const submittedAt = own.submittedAt ?? now
  const { due, run } = posting
  const waits = due !== undefined && due > now
  const first: Transition =
    due === undefined
      ? { n: 1, run, at: submittedAt, state: "queued" }
      : { n: 1, run, at: submittedAt, state: due > submittedAt ? "scheduled" : "queued", due }
  const record: RecordDraft = {
    id: posting.id,
    task: task.task,
    meth: task.meth,
    name: task.shadow ?? (task.meth === null ? task.task : `${task.task}.${task.meth}`),
    queue: posting.queue,
    priority: posting.message.properties.priority ?? DEFAULT_PRIORITY,
    state: waits ? "scheduled" : "queued",
    run,
    attempt: 0,
    retries: posting.retries,
    fence: "",
    submittedAt,
    timeline: [first],
  }
  if (own.front) record.front = true
  if (due !== undefined) record.dueAt = due
  if (posting.expires !== undefined) record.expiresAt = posting.expires
  if (task.parentId !== null) record.parentId = task.parentId
  if (task.rootId !== null) record.rootId = task.rootId
  if (task.group !== null) record.group = task.group
  if (own.after !== undefined) record.after = own.after
  if (own.member !== undefined) record.member = own.member
  if (own.chord !== undefined) record.chord = own.chord
  if (own.meta !== undefined) record.meta = own.meta
  if (own.description !== undefined) record.description = own.description
  if (own.details !== undefined) record.details = own.details
  if (own.book !== undefined) record.book = own.book
  if (own.sender !== undefined) record.sender = own.sender
  if (own.repeat !== undefined) record.repeat = { times: own.repeat.times, done: own.repeat.done }
  const { hard, soft } = task.timelimit
  if (hard !== null || soft !== null) {
    record.timeLimit = { ...(hard === null ? {} : { hard }), ...(soft === null ? {} : { soft }) }
  }
  return record
}

/** A message in JSON: its body is base64. */
interface MessageText {
  readonly headers: Headers
  readonly properties: Properties
  readonly body: string
}

const messageToText = (message: Message): MessageText => ({ ...message, body: encodeBase64(message.body) })
const messageFromText = (text: MessageText): Message => ({ ...text, body: decodeBase64(text.body) })

/** Encodes a record as JSON; bytes in it become base64. */
export const recordToJson = (record: JobRecord): string => {
  // Most records hold no bytes and are encoded without a copy.
  if (record.message === undefined && record.raw === undefined && record.followUps === undefined) {
    return JSON.stringify(record)
  }
  return JSON.stringify({
    ...record,
    ...(record.message ? { message: messageToText(record.message) } : {}),
    ...(record.raw ? { raw: encodeBase64(record.raw) } : {}),
    ...(record.followUps
      ? { followUps: record.followUps.map((posting) => ({ ...posting, message: messageToText(posting.message) })) }
      : {}),
  })
}

/** A stored record that cannot be read. */
export interface UnreadableRecord {
  readonly _tag: "UnreadableRecord"
  readonly message: string
}

/** Most records, whose text is that of the record itself. */
type PlainRecord = Omit<JobRecord, "message" | "raw" | "followUps">

interface RecordText extends PlainRecord {
  readonly message?: MessageText
  readonly raw?: string
  readonly followUps?: ReadonlyArray<Omit<JobPosting, "message"> & { readonly message: MessageText }>
}

export const recordFromJson = (text: string): Result.Result<JobRecord, UnreadableRecord> => {
  try {
    const value: unknown = JSON.parse(text)
    if (!isRecordText(value)) return Result.fail({ _tag: "UnreadableRecord", message: "not a record: no id or state" })
    if (isPlain(value)) return Result.succeed(value)
    const { message, raw, followUps, ...plain } = value
    return Result.succeed({
      ...plain,
      ...(message ? { message: messageFromText(message) } : {}),
      ...(raw !== undefined ? { raw: decodeBase64(raw) } : {}),
      ...(followUps
        ? { followUps: followUps.map((posting) => ({ ...posting, message: messageFromText(posting.message) })) }
        : {}),
    })
  } catch (cause) {
    return Result.fail({ _tag: "UnreadableRecord", message: `not a record: ${String(cause)}` })
  }
}

const isPlain = (
  text: RecordText,
): text is PlainRecord & { readonly message?: never; readonly raw?: never; readonly followUps?: never } =>
  text.message === undefined && text.raw === undefined && text.followUps === undefined

const isRecordText = (value: unknown): value is RecordText =>
  isObject(value) &&
  "id" in value &&
  typeof value.id === "string" &&
  "state" in value &&
  isState(value.state) &&
  "timeline" in value &&
  Array.isArray(value.timeline)
