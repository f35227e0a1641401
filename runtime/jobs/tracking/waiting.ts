/** What waits in a queue, in the order in which it will be taken. */

import * as Result from "effect/Result"
import type { Connection } from "../../connection/connection.ts"
import { CallboardError } from "../../errors.ts"
import { wholeNumber } from "../../options/fields.ts"
import { refuseUnknown } from "../../options/refuse.ts"
import { checkQueueName, isId } from "../../protocol/name.ts"

/** How far into a queue a list or the search for a job goes: further back the answer would be old before it is read. */
export const MAX_BACK = 10_000

const MAX_LIMIT = 1_000

export interface WaitingRange {
  /** How many jobs of the queue are left out, those that are taken first. Defaults to 0. */
  readonly offset?: number | undefined
  /** Most jobs, 1–1,000. Defaults to 100. */
  readonly limit?: number | undefined
}

/** The place of a job in its queue. */
export interface QueuePlace {
  /** How many jobs are taken before it. */
  readonly position: number
  /** It is further back than `position`. */
  readonly more?: true
}

/** Fails with `unsupported` where the transport cannot list what waits. */
const browserOf = ({ jobs, transport }: Connection): NonNullable<Connection["jobs"]["waiting"]> => {
  if (jobs.waiting !== undefined) return (what, max) => jobs.waiting?.(what, max) ?? Promise.resolve([])
  throw new CallboardError("unsupported", `transport ${transport.name} cannot list the jobs that wait in a queue`)
}

/** The name of a queue. Fails with `invalid-input`. */
export const checkedQueue = (queue: string): string => {
  const checked = checkQueueName(queue)
  if (Result.isFailure(checked)) throw new CallboardError("invalid-input", checked.failure.message, { field: "queue" })
  return queue
}

/**
 * Jobs without those that are scheduled, with which the lists of drivers end. Few of them are read, also where many are
 * scheduled: first the last one, then always the one in the middle.
 */
const withoutScheduled = async ({ jobs }: Connection, ids: ReadonlyArray<string>): Promise<ReadonlyArray<string>> => {
  let due = 0
  let scheduledFrom = ids.length
  for (let at = ids.length - 1; due < scheduledFrom; at = Math.floor((due + scheduledFrom) / 2)) {
    if ((await jobs.find(ids[at] ?? ""))?.record.state === "scheduled") scheduledFrom = at
    else due = at + 1
  }
  return ids.slice(0, due)
}

/** Ids of jobs that wait in a queue and are due, those first that are taken first. Fails with `invalid-input`. */
export const waitingIn = async (
  connection: Connection,
  queue: string,
  range: WaitingRange = {},
): Promise<ReadonlyArray<string>> => {
  refuseUnknown(range, { offset: true, limit: true } satisfies Record<keyof WaitingRange, true>, "waiting()")
  const limit = wholeNumber("limit", range.limit ?? 100, { min: 1, max: MAX_LIMIT })
  const offset = wholeNumber("offset", range.offset ?? 0, { min: 0, max: MAX_BACK - MAX_LIMIT })
  const ids = await browserOf(connection)({ queue: checkedQueue(queue) }, offset + limit)
  return withoutScheduled(connection, ids.slice(offset))
}

/** The place of a job in its queue; `null` where the job does not wait in one, or is not due yet. */
export const queuePlaceOf = async (connection: Connection, id: string): Promise<QueuePlace | null> => {
  const waiting = browserOf(connection)
  const record = isId(id) ? (await connection.jobs.find(id))?.record : undefined
  if (record === undefined || record.tombstone || record.state !== "queued") return null
  const ids = await waiting({ queue: record.queue }, MAX_BACK)
  const position = ids.indexOf(id)
  if (position >= 0) return { position }
  return ids.length < MAX_BACK ? null : { position: MAX_BACK, more: true }
}
