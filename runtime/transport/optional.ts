/** The optional parts of a driver. Each is whole or absent; its comment says what the runtime does where it is absent. */
import type { Index, Known } from "./known.ts"

/** Absent: jobs cannot be listed, and commands about many jobs fail with `unsupported`. */
export interface Queries {
  /**
   * Jobs, newest first (by submission, or by their last change where the broker keeps no other order): stored records
   * that are not hidden, and tasks whose job has no record. It may return more than the query asks for (the runtime
   * filters), never less. `partial`: the answer was cut after `budget`, or by the signal; `next` goes on from there, behind
   * what was read: each call reads something. A cursor that cannot be read fails with `invalid`.
   */
  query(query: Query): Promise<FoundJobs>
}

export interface FoundJobs {
  readonly jobs: ReadonlyArray<FoundJob>
  readonly next?: string
  readonly partial?: true
  /** How many rows, entries or messages were read to find these jobs. Absent where the driver does not know. */
  readonly scanned?: number
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
  /** Fingerprint of the failure. */
  readonly error?: string
  /** The last eight characters of the id, in lower case whatever they are there. */
  readonly idEnds?: string
  /** Submitted at this time or later, before that time. */
  readonly since?: number
  readonly until?: number
  /** Longest time of the search, in milliseconds. Absent: unlimited. */
  readonly budget?: number
  /** The search ends soon after this fires. */
  readonly signal?: AbortSignal
  /** Only ids are asked for: the driver may leave records and tasks out. */
  readonly bare?: true
  readonly limit: number
  readonly after?: string
}

const FIELDS = ["queue", "root", "parent", "group", "error"] as const

/** Scheduled and queued match each other, since a scheduled task may be due by now; the runtime tells them apart. */
const waits = (state: Index["state"]): boolean => state === "queued" || state === "scheduled"

/** Whether a job matches a query, for drivers that compare in code. */
export const matches = (index: Index, query: Omit<Query, "limit">): boolean => {
  const { states, dead, task, since = 0, until = Number.POSITIVE_INFINITY } = query
  const isIn = states === undefined || states.includes(index.state) || (waits(index.state) && states.some(waits))
  const isOfTask = task === undefined || index.task === task || `${index.task}.${index.method ?? ""}` === task
  const isThen = index.at >= since && index.at < until
  if (index.hidden || (dead && !index.dead) || !isIn || !isOfTask || !isThen) return false
  return FIELDS.every((field) => query[field] === undefined || query[field] === index[field])
}

/** Absent: jobs that are not in a queue are counted by reading them, up to a bound. */
export interface Counts {
  /**
   * How many stored records of a state there are that are not hidden, of one queue or of all. `undefined` where the driver
   * would have to read each of them. Asked about states in which a job is in no queue: deferred, and those that end it.
   * Where `max` is said, a driver that counts one by one stops once there are more.
   */
  count(state: Index["state"], queue?: string, max?: number): Promise<number | undefined>
}

/** Absent: no depths of queues and no purge; an expired job is noticed only when its task is taken or its record read. */
export interface QueueBrowser {
  /** All queues that hold a task; one that was emptied may be among them, with nothing in it. */
  queues(): Promise<ReadonlyArray<QueueDepth>>
  /**
   * Ids of jobs whose task no delivery has: those in a queue, in the order of taking with scheduled ones last; or those
   * whose `expires` has passed, oldest first.
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
  /** Tasks that a delivery has. A broker that cannot tell also counts one whose lease is over, until it is taken again. */
  readonly held: number
  /** When the oldest of the jobs was submitted whose tasks are ready; absent where none is. */
  readonly oldest?: number
}

/** Announcements to all processes. Absent: no remote control and no live events. */
export interface Broadcast {
  /** Sends to all current listeners, also to those of the own process. At most 66 KiB. Topics: `[a-z0-9.-]{1,128}`. */
  send(topic: string, payload: Uint8Array): Promise<void>
  listen(topic: string, listener: (payload: Uint8Array) => void, signal: AbortSignal): Promise<void>
}
