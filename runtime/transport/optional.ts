/**
 * What a driver may do by itself because its broker does it better. Each interface is whole or absent. The comment on each
 * says what the runtime does where it is absent.
 */
import type { Index, Known } from "./known.ts"

/** Absent: this transport cannot list jobs, so that there is no page of them and no command about many. */
export interface Queries {
  /**
   * Jobs, newest first: stored records that are not hidden, and tasks whose job has no record. It may return more than the
   * query asks for (the runtime filters), never less. `partial`: the answer was cut after `budget`; `next` goes on from
   * there. A cursor that cannot be read fails with `invalid`.
   */
  query(query: Query): Promise<FoundJobs>
}

export interface FoundJobs {
  readonly jobs: ReadonlyArray<FoundJob>
  readonly next?: string
  readonly partial?: true
}

export interface FoundJob extends Known {
  readonly id: string
}

export interface Query {
  readonly states?: ReadonlyArray<Index["state"]>
  readonly dead?: true
  readonly queue?: string
  /** Task, or task and method joined by a dot. */
  readonly task?: string
  readonly root?: string
  readonly parent?: string
  readonly group?: string
  /** Submitted at this time or later, before that time. */
  readonly since?: number
  readonly until?: number
  /** How long the broker may be searched, in milliseconds. */
  readonly budget?: number
  readonly limit: number
  readonly after?: string
}

const FIELDS = ["queue", "root", "parent", "group"] as const

/** What was scheduled may be due by now: that is for the reader to say. */
const waits = (state: Index["state"]): boolean => state === "queued" || state === "scheduled"

export const matches = (index: Index, query: Omit<Query, "limit">): boolean => {
  const { states, dead, task, since = 0, until = Number.POSITIVE_INFINITY } = query
  const isIn = states === undefined || states.includes(index.state) || (waits(index.state) && states.some(waits))
  const isOfTask = task === undefined || index.task === task || `${index.task}.${index.method ?? ""}` === task
  const isThen = index.at >= since && index.at < until
  if (index.hidden || (dead && !index.dead) || !isIn || !isOfTask || !isThen) return false
  return FIELDS.every((field) => query[field] === undefined || query[field] === index[field])
}

/** Absent: no depths, no purge by queue; that a job has expired is noticed when it is taken or read. */
export interface QueueBrowser {
  queues(): Promise<ReadonlyArray<QueueDepth>>
  /**
   * Ids of tasks that no delivery has: those of a queue, as they would be taken, undue ones last; or those whose
   * `expires` has passed, oldest first.
   */
  waiting(
    what: { readonly queue: string } | { readonly expiredBy: number },
    max: number,
  ): Promise<ReadonlyArray<string>>
}

export interface QueueDepth {
  readonly queue: string
  readonly ready: number
  readonly scheduled: number
  readonly held: number
  /** When the oldest ready task was submitted. */
  readonly oldest?: number
}

/** Absent: no remote control and no live events. */
export interface Broadcast {
  /** To all that listen now, the sender's process included. At most 66 KiB. Topics: `[a-z0-9.-]{1,128}`. */
  send(topic: string, payload: Uint8Array): Promise<void>
  listen(topic: string, listener: (payload: Uint8Array) => void, signal: AbortSignal): Promise<void>
}
