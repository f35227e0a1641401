/** Reads the task of a delivery from its headers and properties, without its body. */
import * as Result from "effect/Result"
import type { Unreadable } from "../jobs/outcome/settlement.ts"
import { isExternal, parseTask, postingOfTask, type Task } from "../protocol/headers.ts"
import { isUndecodable, type JobPosting, publishKey } from "../protocol/message.ts"
import { toProtocol2 } from "../protocol/protocol1.ts"
import { isExpired } from "../protocol/time.ts"
import type { JobDelivery } from "../transport/job-store/transport.ts"
import type { InputRead } from "./active-delivery.ts"

/** The task that a delivery carries. */
export interface ParsedDelivery {
  readonly task: Task
  readonly posting: JobPosting
  /**
   * Priority level that the task asks for. The level in `posting` is the one in its queue, where there may be fewer
   * levels.
   */
  readonly level: number
}

/** A task whose input may have been read as well. */
export interface ReadDelivery extends ParsedDelivery {
  readonly read?: InputRead
}

/** Parses the task of a delivery. A message of Celery's protocol 1 is converted first. */
export const parseDelivery = (delivery: JobDelivery): Result.Result<ParsedDelivery, Unreadable> => {
  const { message } = delivery
  if (isUndecodable(message)) {
    return Result.fail({ reason: "undecodable", problem: message.undecodable, kept: { raw: message.raw } })
  }
  const invalid = (problem: { readonly message: string }): Unreadable => ({
    reason: "invalid-task",
    problem: problem.message,
    kept: { message },
  })
  const converted = toProtocol2(message)
  if (Result.isFailure(converted)) return Result.fail(invalid(converted.failure))
  const parsed = parseTask(converted.success)
  if (Result.isFailure(parsed)) return Result.fail(invalid(parsed.failure))
  const posting = postingOfTask(parsed.success, converted.success, delivery.queue)
  if (Result.isFailure(posting)) return Result.fail(invalid(posting.failure))
  const { level } = posting.success
  const placed = level === delivery.level ? posting.success : { ...posting.success, level: delivery.level }
  return Result.succeed({ task: parsed.success, posting: placed, level })
}

/**
 * Whether a task may have expired. A `ttl` is over once the job has started: of a task that was delivered before only its record
 * tells whether it has.
 */
export const hasExpired = ({ expires, own }: Task, fresh: boolean, now: number): boolean =>
  isExpired(expires, now) && (fresh || own.ttlMs === undefined)

/** A task that is due within this many milliseconds may run: a transport may deliver it that much too early. */
const EARLY_MS = 50

/** Longest delay with which a task that is due later is given back, in milliseconds. Then it comes again and is given back again. */
const MAX_WAIT_MS = 7 * 86_400_000

/**
 * Milliseconds until a task is due; 0: it may run. A broker of Celery's delivers at once what is due later, and leaves the wait to
 * its workers.
 */
export const notDueMs = ({ task, posting }: ParsedDelivery, now: number): number => {
  if (posting.due === undefined || !isExternal(task)) return 0
  const early = Math.min(posting.due - now, MAX_WAIT_MS)
  return early > EARLY_MS ? early : 0
}

const postingIn = (delivery: JobDelivery): JobPosting | undefined => {
  const task = parseDelivery(delivery)
  return Result.isSuccess(task) ? task.success.posting : undefined
}

const isSame = (one: JobPosting, other: JobPosting): boolean => {
  const [a, b] = [one.message, other.message]
  return (
    publishKey(one) === publishKey(other) &&
    a.headers["task"] === b.headers["task"] &&
    a.headers["meth"] === b.headers["meth"] &&
    Buffer.compare(a.body, b.body) === 0
  )
}

/** The delivery in this worker that carries the same task (publish key and work) as `delivery`. */
export const findSameTask = <A extends { readonly delivery: JobDelivery }>(
  buffer: Iterable<A>,
  delivery: JobDelivery,
): A | undefined => {
  const id = idOf(delivery)
  if (id === undefined) return undefined
  // Ids are compared first, because parsing the headers of every delivery would cost more.
  for (const active of buffer) {
    if (idOf(active.delivery) !== id) continue
    const [wanted, held] = [postingIn(delivery), postingIn(active.delivery)]
    if (wanted !== undefined && held !== undefined && isSame(wanted, held)) return active
  }
  return undefined
}

const idOf = ({ message }: JobDelivery): unknown => (isUndecodable(message) ? undefined : message.headers["id"])

/** The deliveries before which the list has one of the same job. A task that was never delivered before comes only once. */
export const copiesIn = (deliveries: ReadonlyArray<JobDelivery>): ReadonlyArray<JobDelivery> => {
  const again = deliveries.filter(({ fresh }) => !fresh)
  if (again.length < 2) return []
  const seen = new Set<unknown>()
  return again.filter((delivery) => {
    const id = idOf(delivery)
    if (id === undefined) return false
    const isCopy = seen.has(id)
    seen.add(id)
    return isCopy
  })
}
