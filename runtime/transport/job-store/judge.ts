/** Decides what a stored record means for a task, for a follow-up, and for an attempt. Pure; the same on all transports. */
import { isUndecodable, type JobPosting, type Message, publishKey } from "../../protocol/message.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { isTakenEarly } from "../../protocol/record.ts"
import { DUPLICATE_ID, isTerminal } from "../../protocol/state.ts"
import type { Known } from "../known.ts"
import {
  type DeliveryToken,
  inOrder,
  NO_ORDER,
  type Order,
  orderOf,
  orderOfKey,
  parseFence,
  sequenceOf,
} from "./attempt.ts"
import { decodeContent } from "./codec.ts"
import type { Claim } from "./transport.ts"

/** Where a task stands among the tasks of its job. */
export interface Position extends Pick<JobPosting, "run" | "retries"> {
  readonly order: Order
}

export const positionOf = (posting: Pick<JobPosting, "run" | "retries" | "hops">): Position => ({
  run: posting.run,
  retries: posting.retries,
  order: orderOf(posting),
})

/** Position of the task that an attempt runs. */
const positionOfAttempt = ({ order }: DeliveryToken): Position => ({ ...inOrder(order), order })

/**
 * Whether a task has nothing left to do: a later run is stored, or its run has ended, or continues in a successor, or a
 * later task of the job has begun, or the task was acked early by another attempt than `fence`.
 */
export const isOver = (stored: JobRecord, posting: Position, fence: string): boolean => {
  if (stored.run !== posting.run) return stored.run > posting.run
  if (isTerminal(stored.state)) return true
  if (stored.successor !== undefined && orderOfKey(stored.id, stored.successor) > posting.order) return true
  if (stored.fence !== fence && isTakenEarly(stored, posting)) return true
  const by = parseFence(stored.fence)
  return by !== undefined && by.order !== NO_ORDER && by.order > posting.order
}

// ── Whose a task is ──────────────────────────────────────────────────────────────────────────────────────────────────

/** What a task does. A body that is not kept is known by its digest, or not at all. */
interface Work {
  readonly task: unknown
  readonly meth: unknown
  readonly digest?: string | undefined
  readonly body?: Uint8Array | undefined
}

const workOf = ({ id, task, meth, digest, message, followUps }: JobRecord): Work => {
  const kept = message ?? followUps?.find((posting) => posting.id === id)?.message
  return { task, meth, digest, body: kept?.body }
}

const workIn = ({ headers, body }: Message, digest?: string): Work => ({
  task: headers["task"],
  meth: headers["meth"] ?? null,
  digest,
  body,
})

/** Work whose body is not known counts as the same. */
const isSameWork = (one: Work, other: Work): boolean => {
  if (one.task !== other.task || one.meth !== other.meth) return false
  if (one.digest !== undefined && other.digest !== undefined) return one.digest === other.digest
  return one.body === undefined || other.body === undefined || areSameBytes(one.body, other.body)
}

const areSameBytes = (one: Uint8Array, other: Uint8Array): boolean =>
  one.length === other.length && one.every((byte, at) => byte === other[at])

/**
 * Whether a task has the id of a job, and is none of that job's: it does something else, or it counts runs or retries that
 * the record does not know. The record of a job is stored before its next task is published, and a job that waits for others
 * has no task at all. Of a deleted job's task that comes again once the id is used anew nothing can be told: that is over.
 */
export const isOfAnother = (
  stored: JobRecord,
  { posting, digest, at }: Pick<Claim, "posting" | "digest" | "at">,
  { first, external }: Pick<DeliveryToken, "first" | "external">,
): boolean => {
  const { run, retries, message } = posting
  if (stored.run > run && !first) return false
  if (stored.state === "deferred") return true
  const isAnnounced = stored.successor !== undefined && stored.successor === publishKey(posting)
  const isAhead = !isAnnounced && (run > stored.run || (run === stored.run && retries > stored.retries))
  if (!isAhead) return !isSameTask(stored, workIn(message, digest))
  // A worker of Celery's tries a task again under its id, and writes the body anew. It cannot have what is due later.
  const isDueLater = stored.state === "scheduled" && (stored.dueAt ?? 0) > at
  return !external || run > stored.run || isDueLater || stored.task !== message.headers["task"]
}

/** The body of a chord's task has changed since it was submitted: it has got the results of the members. */
const isSameTask = (stored: JobRecord, work: Work): boolean =>
  isSameWork(workOf(stored), stored.chord === undefined ? work : { ...work, digest: undefined, body: undefined })

/**
 * Whether another task was published before that of the attempt, under an id of which no record is stored yet. A worker of
 * Celery's may replace a task by another one under its id: where the broker cannot tell whether such a worker has taken the
 * earlier task, and it is not due later, the one that says so goes on with the job.
 */
export const isPreceded = (known: Known | undefined, message: Message, attempt: DeliveryToken, at: number): boolean => {
  const { task } = known ?? {}
  if (task === undefined || (task.sequence !== undefined && task.sequence >= sequenceOf(attempt))) return false
  const replaces = Number(message.headers["replaced_task_nesting"] ?? 0) > 0
  if (replaces && task.held === undefined && (task.due ?? 0) <= at) return false
  const earlier = decodeContent(task.content)
  return !isUndecodable(earlier) && !isSameWork(workIn(earlier), workIn(message))
}

/** What is stored about the job of a follow-up. */
export interface KnownJob {
  readonly record?: JobRecord
  /** Order of the job's newest task that is in a queue. */
  readonly task?: Order
}

/**
 * Whether a follow-up of the job `owner` was published already: its task is in a queue, or its job has a record. Where the
 * follow-up is the next task of the owner itself, the record must have come as far as that task.
 */
export const isPosted = (followUp: JobPosting, owner: string, kept: KnownJob | undefined): boolean => {
  if (kept === undefined) return false
  const order = orderOf(followUp)
  const { record, task } = kept
  if (followUp.id !== owner) return task !== undefined || record !== undefined
  if (task !== undefined && task >= order) return true
  if (record === undefined) return false
  if (record.run !== followUp.run) return record.run > followUp.run
  if (isTerminal(record.state) || record.retries > followUp.retries) return true
  const by = parseFence(record.fence)
  return by !== undefined && by.order !== NO_ORDER && by.order >= order
}

/**
 * Whether an attempt may claim its job. `finished`: the task has nothing left to do. `repeated`: this attempt has claimed
 * the job before. `superseded`: a later delivery of the same task has claimed it. Else `start`.
 */
export const judgeStart = (
  stored: JobRecord | undefined,
  posting: Position,
  attempt: DeliveryToken,
): "finished" | "repeated" | "superseded" | "start" => {
  if (stored === undefined) return "start"
  if (isOver(stored, posting, attempt.fence)) return "finished"
  if (stored.fence === attempt.fence && stored.state === "started") return "repeated"
  return isNewer(stored, attempt) ? "superseded" : "start"
}

/**
 * Whether a job that a delivery may claim was begun by an earlier one that neither ended it nor gave it back: its worker has
 * probably died while the job ran, perhaps of it.
 */
export const isSuspect = (stored: JobRecord | undefined): boolean => stored?.state === "started"

/** Whether the record was written by a later delivery of the attempt's task, or by one of a second copy of that task. */
const isNewer = (stored: JobRecord, attempt: DeliveryToken): boolean => {
  const by = parseFence(stored.fence)
  const mine = parseFence(attempt.fence)
  return by !== undefined && mine !== undefined && by.order === mine.order && by.fence >= mine.fence
}

/** Whether the record was written by an earlier delivery of the attempt's task, or by one of an earlier task of the job. */
const isOlder = (stored: JobRecord, attempt: DeliveryToken): boolean => {
  const by = parseFence(stored.fence)
  return by !== undefined && by.order !== NO_ORDER && by.order <= attempt.order && !isNewer(stored, attempt)
}

/**
 * What to do with a record whose expected revision was outdated. `retry`: store it over the record that was read. `stored`:
 * the record is stored already, and the answer was lost. `superseded`: another attempt has the job, or the job has ended.
 */
export const judgeConflict = (
  stored: JobRecord | undefined,
  wanted: JobRecord,
  attempt: DeliveryToken,
): "retry" | "stored" | "superseded" => {
  if (stored === undefined) return "retry"
  if (stored.fence === attempt.fence) {
    if (stored.state === "started") return "retry"
    const same = stored.state === wanted.state && stored.run === wanted.run && stored.retries === wanted.retries
    return same && stored.successor === wanted.successor ? "stored" : "superseded"
  }
  // Such a dead letter has an id of its own, made of its task: it is there already.
  if (wanted.dead === DUPLICATE_ID) return "stored"
  // A message that cannot be read belongs to no job. Once any delivery has recorded it as failed, it is done.
  if (attempt.order === NO_ORDER) return isTerminal(stored.state) ? "stored" : "retry"
  if (stored.state === "deferred" || !isSameTask(stored, workOf(wanted))) return "superseded"
  if (isOver(stored, positionOfAttempt(attempt), attempt.fence)) return "superseded"
  if (stored.state === "started") return isOlder(stored, attempt) ? "retry" : "superseded"
  return isNewer(stored, attempt) ? "superseded" : "retry"
}
