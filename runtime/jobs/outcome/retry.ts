/** Whether a failed attempt is followed by another, and when. Pure: the random number comes from outside. */
import type { RetryHeader } from "../../protocol/headers.ts"
import type { JobError } from "../../protocol/record.ts"

/** A policy with every default filled in; durations in milliseconds. */
export interface ResolvedRetry {
  readonly max: number
  /** Whether task or method sets `max`. If not, a handler that throws `Retry` gets Celery's default of 3 retries. */
  readonly maxGiven: boolean
  readonly baseMs: number
  readonly factor: number
  readonly capMs: number
  readonly jitter: boolean
  /** Takes the place of the back-off. */
  readonly intervalsMs: ReadonlyArray<number> | undefined
  readonly front: boolean
  readonly on: ReadonlyArray<string> | undefined
  readonly except: ReadonlyArray<string>
}

/** Celery's `max_retries` for a task that calls `retry()` itself. */
const ASKED_RETRIES = 3

/** The task's fields win over the method's, one by one. A back-off in the task also replaces the method's intervals. */
export const resolveRetry = (task: RetryHeader | undefined, method: RetryHeader | undefined): ResolvedRetry => {
  const max = task?.max ?? method?.max
  const backsOff =
    task !== undefined && [task.baseMs, task.factor, task.maxMs, task.jitter].some((each) => each !== undefined)
  return {
    max: max ?? 0,
    maxGiven: max !== undefined,
    baseMs: task?.baseMs ?? method?.baseMs ?? 1_000,
    factor: task?.factor ?? method?.factor ?? 2,
    capMs: task?.maxMs ?? method?.maxMs ?? 600_000,
    jitter: task?.jitter ?? method?.jitter ?? true,
    intervalsMs: task?.intervalsMs ?? (backsOff ? undefined : method?.intervalsMs),
    front: task?.front ?? method?.front ?? false,
    on: task?.on ?? method?.on,
    except: task?.except ?? method?.except ?? [],
  }
}

/** The interval before the `nth` retry, counted from 0. After the end of the list the last interval holds. */
export const intervalAt = (intervalsMs: ReadonlyArray<number>, nth: number): number =>
  intervalsMs[Math.min(nth, intervalsMs.length - 1)] ?? 0

/** Milliseconds until the retry after `retries` earlier ones; `random` from 0 to 1. */
export const backoff = (policy: ResolvedRetry, retries: number, random: number): number => {
  if (policy.intervalsMs !== undefined) return intervalAt(policy.intervalsMs, retries)
  // After very many retries the power is infinite, and 0 × ∞ would be NaN.
  const wait = policy.baseMs === 0 ? 0 : Math.min(policy.capMs, policy.baseMs * policy.factor ** retries)
  return Math.round(policy.jitter ? wait * random : wait)
}

/** Milliseconds until the next attempt, or `undefined` when the job is given up. */
export const retryAfter = (
  policy: ResolvedRetry,
  error: JobError,
  retries: number,
  random: number,
): number | undefined => {
  if (retries >= policy.max) return undefined
  if (policy.except.includes(error.name)) return undefined
  if (policy.on !== undefined && !policy.on.includes(error.name)) return undefined
  return backoff(policy, retries, random)
}

/** The same for a handler that asked for a retry: its own delay, whatever the error. */
export const askedRetryAfter = (
  policy: ResolvedRetry,
  after: number | undefined,
  retries: number,
  random: number,
): number | undefined => {
  if (retries >= (policy.maxGiven ? policy.max : ASKED_RETRIES)) return undefined
  return after ?? backoff(policy, retries, random)
}
