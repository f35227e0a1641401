/**
 * The failure of a job whose worker is lost and cannot settle it, and its hand-back, made from the job's record. Pure: the
 * clock comes from outside.
 */
import * as Result from "effect/Result"
import { generateId } from "../../id.ts"
import { decodeBody, NO_EMBED } from "../../protocol/body.ts"
import { compact } from "../../protocol/compact.ts"
import { parseTask, type Task } from "../../protocol/headers.ts"
import type { Message } from "../../protocol/message.ts"
import type { JobError, JobRecord } from "../../protocol/record.ts"
import { traceContextOf } from "../../protocol/trace-context.ts"
import type { Settlement } from "../../transport/job-store/transport.ts"
import { afterFailure, type Ended, embedProblem } from "./follow-ups.ts"
import { type Attempt, failed, handedBack } from "./settlement.ts"

export interface LostJob {
  /** Token and fence of the delivery that ran the job; both are empty where no delivery is settled. */
  readonly token: string
  readonly fence: string
  readonly now: number
  /** How long the job is kept, in milliseconds, unless its task says otherwise. */
  readonly keepMs: number
  /** Why the job becomes a dead letter. Absent: it does not become one. */
  readonly dead?: string
  /** Queue of errbacks without a queue of their own. Defaults to the job's queue. */
  readonly queueFor?: Ended["queueFor"]
  readonly redactFor?: Ended["redactFor"]
}

/** `undefined` where the record holds no task that can be parsed. */
export const lostJobFailure = (record: JobRecord, error: JobError, lost: LostJob): Settlement | undefined => {
  const { message, queue } = record
  if (message === undefined) return undefined
  const task = parseTask(message)
  if (Result.isFailure(task)) return undefined
  const { now, dead, queueFor = () => queue, redactFor } = lost
  const body = decodeBody(message)
  const embed =
    Result.isSuccess(body) && embedProblem(body.success.embed, record.id) === undefined ? body.success.embed : NO_EMBED
  const trace = traceContextOf(task.success)
  const newId = () => generateId(now)
  const followUps = afterFailure(embed, error, {
    task: task.success,
    now,
    trace,
    newId,
    queueFor,
    ...(redactFor && { redactFor }),
  })
  return failed(attemptOf(record, message, task.success, lost), error, {
    followUps,
    ...compact({ dead }),
  })
}

/** The hand-back of a job that its worker has begun, uncounted; `undefined` where the record holds no task that can be parsed. */
export const lostJobHandedBack = (record: JobRecord, lost: LostJob): Settlement | undefined => {
  const { message } = record
  const task = message === undefined ? undefined : Result.getOrUndefined(parseTask(message))
  if (message === undefined || task === undefined) return undefined
  return handedBack(attemptOf(record, message, task, lost), true, 0)
}

const attemptOf = (record: JobRecord, message: Message, task: Task, lost: LostJob): Attempt => {
  const { token, fence, now, keepMs } = lost
  const { id, run, retries, queue, priority: level } = record
  const posting = { id, run, retries, queue, level, message }
  return { token, fence, posting, task, record, now, keep: { resultMs: keepMs, failureMs: keepMs } }
}
