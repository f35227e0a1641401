/**
 * What is stored about a job, and how it reads as bytes.
 *
 * A job that only waits needs no record of its own: {@link recordOfPosting} derives it from the task in the queue.
 * The record that decides an outcome holds everything that follows from it (retry, callbacks, errbacks, next in chain)
 * as complete postings, so that a crash between two writes neither loses nor doubles a follow-up.
 */
import { Result } from "effect"
import { decodeBase64, encodeBase64 } from "./base64.ts"
import { type InvalidTask, parseTask, type Task } from "./headers.ts"
import { type AddressedTask, DEFAULT_PRIORITY, type Headers, type Message, type Properties } from "./message.ts"
import { isState, type State } from "./state.ts"

/** One step in the life of a job. Its event id is `<run>.<n>`. */
export interface Transition {
  /** Counts up over all runs, also past those that are no longer kept. */
  readonly n: number
  readonly run: number
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly state: State
  readonly attempt?: number
  readonly worker?: string
  /** Why: `retry`, `handed-back`, `lease-lost`, `rerun`, `released`, `purged`, or the reason of a failure. */
  readonly reason?: string
  /** When a scheduled job is due, in milliseconds since the epoch. */
  readonly due?: number
}

/** How many transitions a record keeps, newest last. */
export const TIMELINE_LENGTH = 50

/** Whether a job is one of a task: `text` is every method of that actor, `text.count` one, however it was submitted. */
export const isOfTask = (record: Pick<JobRecord, "task" | "meth">, task: string): boolean =>
  record.task === task || (record.meth !== null && `${record.task}.${record.meth}` === task)

/** Why a job failed, in a form that survives the wire. */
export interface JobError {
  /** Error tag or class name: what `retry.on` matches. */
  readonly name: string
  readonly message: string
  /** Machine-readable cause: `handler`, `invalid-input`, `result-unserialisable`, `result-too-large`, `timeout`, `worker-lost`, `unknown-actor` … */
  readonly reason: string
  readonly traceback?: string
  /** Where in the input the problem is, for `invalid-input`. */
  readonly field?: string
  readonly cause?: { readonly name: string; readonly message: string }
}

export interface Progress {
  /** 0–1. */
  readonly fraction: number
  readonly detail?: unknown
  readonly at: number
}

/** Jobs that a job waits for, or waited for before it could start. */
export interface Dependencies {
  readonly ids: ReadonlyArray<string>
  /** Their failure will do as well as their success. */
  readonly allowFailure?: boolean
  /** Those of them that have not ended as they must. Absent once the job waits for none any more. */
  readonly waiting?: ReadonlyArray<string>
}

/** Times are milliseconds since the epoch. Everything but message, raw and follow-ups is plain JSON. */
export interface JobRecord {
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
  /** Attempts that began, for people; 0 before the first. */
  readonly attempt: number
  readonly retries: number
  /** Fence of the delivery that wrote this record; empty when no delivery did. */
  readonly fence: string
  /** Claims since the last outcome: what the lost-worker cap counts. */
  readonly claims?: number
  /** Set while a delivery runs whose task was taken off its queue before its handler started: nobody else can have it. */
  readonly acked?: boolean
  /** Publish key of the posting that carries the job on (a retry): deliveries of older postings are over. */
  readonly successor?: string
  readonly submittedAt: number
  readonly dueAt?: number
  readonly expiresAt?: number
  readonly startedAt?: number
  readonly endedAt?: number
  readonly progress?: Progress
  readonly result?: unknown
  readonly error?: JobError
  /** Set on dead letters: why the task was given up without the application having decided so. */
  readonly dead?: string
  readonly worker?: string
  readonly parentId?: string
  readonly rootId?: string
  readonly group?: string
  readonly after?: Dependencies
  readonly meta?: Readonly<Record<string, unknown>>
  readonly description?: string
  /** Oldest first, at most {@link TIMELINE_LENGTH}. */
  readonly timeline: ReadonlyArray<Transition>
  /** How long to keep the record once terminal, in milliseconds from `endedAt`; negative is for ever. */
  readonly keepMs?: number
  /** Set when the record itself was deleted: only id, state, run, fence, successor and follow-ups still mean something. */
  readonly tombstone?: boolean
  /** Set while the queue and the record are stored apart and publishing has not been confirmed. */
  readonly accepting?: boolean
  /** Published exactly once per publish key after this record is stored. */
  readonly followUps?: ReadonlyArray<AddressedTask>
  /** Kept for failed, cancelled, expired and dead jobs, so that they can run again. */
  readonly message?: Message
  /** What came, where it could not be decoded. */
  readonly raw?: Uint8Array
}

/** A timeline with one step more; keeps the newest {@link TIMELINE_LENGTH}. */
export const withTransition = (
  timeline: ReadonlyArray<Transition>,
  run: number,
  change: Omit<Transition, "n" | "run">,
): ReadonlyArray<Transition> => {
  const entry: Transition = { ...change, run, n: (timeline[timeline.length - 1]?.n ?? 0) + 1 }
  return timeline.length < TIMELINE_LENGTH ? [...timeline, entry] : [...timeline.slice(1 - TIMELINE_LENGTH), entry]
}

/** Appends a step to a record and sets its state. */
export const step = (
  record: JobRecord,
  change: Omit<Transition, "n" | "run"> & { readonly run?: number },
): JobRecord => {
  const { run = record.run, ...rest } = change
  return { ...record, run, state: change.state, timeline: withTransition(record.timeline, run, rest) }
}

/** The record of a job whose next attempt begins. */
export const started = (
  before: JobRecord,
  attempt: { readonly fence: string; readonly worker: string; readonly at: number },
): JobRecord => {
  const number = before.attempt + 1
  return {
    // A first attempt, which is the rule, has nothing to leave behind: one copy is enough.
    ...(isFirstAttempt(before) ? before : withoutEarlierAttempt(before)),
    state: "started",
    timeline: withTransition(before.timeline, before.run, {
      at: attempt.at,
      state: "started",
      attempt: number,
      worker: attempt.worker,
    }),
    attempt: number,
    fence: attempt.fence,
    worker: attempt.worker,
    startedAt: attempt.at,
  }
}

/** Whether nobody has left anything in the record that {@link withoutEarlierAttempt} would take out. */
const isFirstAttempt = ({ attempt, error, followUps }: JobRecord): boolean =>
  attempt === 0 && error === undefined && followUps === undefined

/** What an earlier attempt left in the record and a new one takes back. */
const withoutEarlierAttempt = (before: JobRecord): JobRecord => {
  const {
    successor: _successor,
    followUps: _followUps,
    error: _error,
    progress: _progress,
    endedAt: _ended,
    acked: _acked,
    ...kept
  } = before
  return kept
}

/** {@link started}, for a delivery that claims its job: what a transport's `claim` stores. */
export const claimed = (before: JobRecord, attempt: Parameters<typeof started>[1]): JobRecord => ({
  ...started(before, attempt),
  claims: (before.claims ?? 0) + 1,
})

/** Whether the delivery with this fence has claimed the job already, as far as its record tells. */
export const isClaimOf = ({ state, fence, claims = 0 }: JobRecord, by: string): boolean =>
  state === "started" && fence === by && claims > 0

/** Whether a posting was taken off its queue before its handler started: should it come again, it must not run again. */
export const isTakenEarly = (
  { acked, state, run, retries }: Pick<JobRecord, "acked" | "state" | "run" | "retries">,
  posting: Pick<AddressedTask, "run" | "retries">,
): boolean => acked === true && state === "started" && run === posting.run && retries >= posting.retries

/**
 * {@link claimed}, taken back: attempt, claims, state and timeline as they were, so that claiming the result once more
 * makes the same record. What the claim took out (error, successor, follow-ups) and whose fence it replaced is not known
 * any more: nobody who claims a job needs it.
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

/**
 * What is left of an ended record that is not kept any more. What follows from its outcome stays: a worker may have died
 * before that was published, and the delivery that comes after finds it only here. Postings of the job itself are over
 * with it.
 */
export const tombstoneOf = (record: JobRecord): JobRecord => {
  const {
    result: _result,
    error: _error,
    message: _message,
    raw: _raw,
    meta: _meta,
    description: _description,
    progress: _progress,
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
  posting: Omit<AddressedTask, "level">,
  now: number,
): Result.Result<JobRecord, InvalidTask> => {
  const parsed = parseTask(posting.message)
  return Result.isFailure(parsed)
    ? Result.fail(parsed.failure)
    : Result.succeed(recordOfTask(posting, parsed.success, now))
}

/** {@link recordOfPosting} for headers that are parsed already. */
export const recordOfTask = (posting: Omit<AddressedTask, "level">, task: Task, now: number): JobRecord => {
  const own = task.own
  const submittedAt = own.submittedAt ?? now
  const waits = posting.due !== undefined && posting.due > now
  const first: Transition = {
    n: 1,
    run: posting.run,
    at: submittedAt,
    state: posting.due !== undefined && posting.due > submittedAt ? "scheduled" : "queued",
    ...(posting.due !== undefined ? { due: posting.due } : {}),
  }
  return {
    id: posting.id,
    task: task.task,
    meth: task.meth,
    name: task.shadow ?? (task.meth === null ? task.task : `${task.task}.${task.meth}`),
    queue: posting.queue,
    priority: posting.message.properties.priority ?? DEFAULT_PRIORITY,
    ...(own.front ? { front: true } : {}),
    state: waits ? "scheduled" : "queued",
    run: posting.run,
    attempt: 0,
    retries: posting.retries,
    fence: "",
    submittedAt,
    ...(posting.due !== undefined ? { dueAt: posting.due } : {}),
    ...(posting.expires !== undefined ? { expiresAt: posting.expires } : {}),
    ...(task.parentId !== null ? { parentId: task.parentId } : {}),
    ...(task.rootId !== null ? { rootId: task.rootId } : {}),
    ...(task.group !== null ? { group: task.group } : {}),
    ...(own.after !== undefined ? { after: own.after } : {}),
    ...(own.meta !== undefined ? { meta: own.meta } : {}),
    ...(own.description !== undefined ? { description: own.description } : {}),
    timeline: [first],
  }
}

/** A message where bytes have no place: its body as base64. */
interface MessageText {
  readonly headers: Headers
  readonly properties: Properties
  readonly body: string
}

const messageToText = (message: Message): MessageText => ({ ...message, body: encodeBase64(message.body) })
const messageFromText = (text: MessageText): Message => ({ ...text, body: decodeBase64(text.body) })

const encoder = new TextEncoder()
const decoder = new TextDecoder("utf-8", { fatal: true })

/** A record as UTF-8 JSON; bytes inside it as base64. */
export const encodeRecord = (record: JobRecord): Uint8Array => encoder.encode(recordToJson(record))

export const recordToJson = (record: JobRecord): string => {
  // Most records hold no bytes: those need no copy.
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

export const decodeRecord = (bytes: Uint8Array): Result.Result<JobRecord, UnreadableRecord> => {
  try {
    return recordFromJson(decoder.decode(bytes))
  } catch (cause) {
    return Result.fail({ _tag: "UnreadableRecord", message: `not a record: ${String(cause)}` })
  }
}

interface RecordText extends Omit<JobRecord, "message" | "raw" | "followUps"> {
  readonly message?: MessageText
  readonly raw?: string
  readonly followUps?: ReadonlyArray<Omit<AddressedTask, "message"> & { readonly message: MessageText }>
}

export const recordFromJson = (text: string): Result.Result<JobRecord, UnreadableRecord> => {
  try {
    const value: unknown = JSON.parse(text)
    if (!isRecordText(value)) return Result.fail({ _tag: "UnreadableRecord", message: "not a record: no id or state" })
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

const isRecordText = (value: unknown): value is RecordText =>
  typeof value === "object" &&
  value !== null &&
  "id" in value &&
  typeof value.id === "string" &&
  "state" in value &&
  isState(value.state) &&
  "timeline" in value &&
  Array.isArray(value.timeline)
