/**
 * What a transport has to do. A driver moves bytes: it stores tasks in queues, delivers them to workers, and stores one
 * record per job. The runtime decides what a record says, which delivery is too late, and what follows from an outcome.
 *
 * Rules for every method: it takes a batch and answers item by item, in order; an item that fails does not stop the others.
 * It may be called at any time, also while other calls run. It throws only a `TransportError`, and only when nothing was
 * tried. It ends within a bound when the broker does not answer. It never repeats a call that its caller can repeat.
 * Times are milliseconds since the epoch, durations are milliseconds. Ids are text of 1 to 255 bytes, queue names too.
 */
import type { Message, Undecodable } from "../protocol/message.ts"
import type { TransportError } from "./errors.ts"
import type { Index, Known } from "./known.ts"
import type { Broadcast, Counts, Queries, QueueBrowser } from "./optional.ts"
import type { Revision, Store } from "./store.ts"

/** A plugin. Its module exports it as `plugin` or as the default export. */
export interface Plugin {
  /** URL schemes it serves, without the colon. */
  readonly schemes: ReadonlyArray<string>
  /** Connects once, within `options.timeout`. Fails with `unavailable`, `unauthorized`, `unsupported` or `invalid`. */
  connect(url: URL, options: ConnectOptions): Promise<Driver>
  /** Connects over a client object of the application, which `close` leaves open. `undefined` for an object of another library. */
  adopt?(client: unknown, options: ConnectOptions): Promise<Driver> | undefined
}

/** The options with which the runtime connects a plugin. */
export interface ConnectOptions {
  /** Prefix of every stream, subject, key and row, so that several boards can share a server. `[A-Za-z0-9_-]{1,64}`. */
  readonly namespace: string
  /** How long a delivery has its task unless extended, in milliseconds. At least 1,000 and the declared resolution. */
  readonly lease: number
  /** Name of the connecting process, for the broker's own tools. */
  readonly name: string
  /** Longest time for connecting, in milliseconds. */
  readonly timeout: number
  /**
   * Interval of the keep-alive in milliseconds, checked twice per interval: a connection counts as lost after one to one
   * and a half intervals without an answer. 0: the connection is not checked. Absent: the plugin chooses. A plugin without
   * a connection ignores it.
   */
  readonly heartbeat?: number
  /** Milliseconds to wait before try number `tries` (from 1) to connect again. Absent: the plugin chooses. */
  readonly reconnectDelay?: (tries: number) => number
}

/** Queues and records over one broker or database. Each optional part is whole or absent. */
export interface Driver extends Partial<QueueBrowser>, Partial<Queries>, Partial<Counts> {
  readonly name: string
  readonly capabilities: Capabilities
  /** Keyed values that workers share: limits, pauses, dependencies, the worker list and progress. */
  readonly store: Store
  /** Announcements to all processes that listen. Absent: no remote control and no live events. */
  readonly broadcast?: Broadcast

  /**
   * Stores tasks, as durably as declared, before it answers. `duplicate`: a task with this `key` is in a queue now, or was
   * published within `dedupeWindow`; nothing was stored. A queue exists once a task was published to it.
   */
  publish(postings: ReadonlyArray<Posting>): Promise<ReadonlyArray<Receipt>>

  /**
   * Delivers at most `max` tasks that are due, ordered by queue (as listed), level (high first) and sequence; with `rotate`
   * the queues take turns of one task, from one call to the next. A task that was accepted before this call began comes
   * before lower ones of its queue. One delivery has a task until its lease ends; then the task is delivered again. One that
   * falls due, is given back or has lost its lease comes in its place, by level and sequence, and not behind the others.
   *
   * With `capabilities.waits` it waits up to `wait` for the first task, else it answers at once. When the signal fires it
   * answers soon with nothing, and gives late tasks back, without a delay and, where the broker can, uncounted. It fails
   * with `unavailable` when it cannot ask the broker: an empty answer means that no task is due.
   */
  take(request: TakeRequest, signal: AbortSignal): Promise<Taken>

  /**
   * Extends leases to a full lease from now. `true` only if the delivery still has its task, never after another delivery
   * got it. A lease that is over holds until another delivery has the task: it can still be extended, and its task be ended
   * or given back; but not once the driver has put the task back into a queue that other programs read, as on redis. A broker
   * that cannot tell (the acknowledgements of JetStream) refuses a lease that may be over, or answers
   * as well as it can, since the runtime compares fences. A token is plain text and works from every thread and process that opened the same URL.
   */
  extend(tokens: ReadonlyArray<string>): Promise<ReadonlyArray<boolean>>

  /**
   * What is known about jobs. It sees every commit that was answered before it began, by any process.
   * `record`: only the stored record is needed (one lookup). `all`: also the task in the queue. A job that moves between
   * queue and record must not be missed: read where jobs come from before where they go, and confirm a miss once.
   */
  read(ids: ReadonlyArray<string>, what: "record" | "all"): Promise<ReadonlyArray<Known | undefined>>

  /** Applies commits; see {@link Commit}. */
  commit(commits: ReadonlyArray<Commit>): Promise<ReadonlyArray<Committed>>

  /**
   * Needed unless `capabilities.atomic`. Ids of jobs whose task was lost between two steps of a commit, oldest first: the
   * record says `queued` or `scheduled`, was stored at `before` or earlier, and no task of the job is in any queue, or it
   * says `queued`, and the newest task is due later (but not at `parked`: another broker delivers that one). It may name a
   * job that is moving right now. A record that was found healthy once need not be checked again.
   */
  orphans?(before: number, max: number, parked?: number): Promise<ReadonlyArray<string>>

  /**
   * Calls the listener on changes by any process, from when the promise resolves until the signal fires. Best effort, since
   * the runtime also asks by itself now and then. A `take` or `read` that begins after the news must see the change. The
   * driver may report more than was asked for. `missed`: news may have been lost, for instance during a reconnection.
   */
  listen(interest: Interest, listener: (news: News) => void, signal: AbortSignal): Promise<void>

  /**
   * Calls the listener on each change between reachable and not, with the reason where it is known. A driver counts as
   * reachable at first. Returns a function that removes the listener.
   */
  onStatus(listener: (status: "connected" | "disconnected", why?: TransportError) => void): () => void

  /**
   * Ends calls of `take` that wait, and closes what the driver opened, without waiting for deliveries. May be called twice.
   * Later calls of other methods fail with `closed`.
   */
  close(): Promise<void>
}

/**
 * The driver of a broker that keeps only queues: no records, no store, no due times. The runtime joins it with the driver
 * of another transport, which the URL names (`?records=`). No posting that it gets has `due`, and each commit is the `ack`
 * or `hand-back` (without a delay) of a delivery. `fence` and `first` of its deliveries are not used; their `sequence` is 0
 * where another system has published the task. Of its capabilities only `durability`, `reach`, `bands`, `front`, `maxTask`
 * and `leaseResolution` are used.
 */
export type QueueDriver = Pick<
  Driver,
  "name" | "capabilities" | "publish" | "take" | "extend" | "commit" | "onStatus" | "close"
>

/** A plugin for a broker that keeps only queues. */
export interface QueuePlugin extends Pick<Plugin, "schemes"> {
  connect(url: URL, options: ConnectOptions): Promise<QueueDriver>
}

/** What a driver declares about itself. The conformance kit tests it. */
export interface Capabilities {
  /** What a task or record survives once its publish or commit was answered. */
  readonly durability: "none" | "process" | "server" | "fsync" | "quorum"
  /** Which processes can share its queues. */
  readonly reach: "process" | "host" | "network"
  /** A commit is one transaction. */
  readonly atomic: boolean
  /** `take` waits for a first task by itself. */
  readonly waits: boolean
  /** How long a publish key is remembered, in milliseconds. `Infinity`: for as long as the job's record. */
  readonly dedupeWindow: number
  /** Longest time until `due` and longest delay of a release, in milliseconds. Longer ones are refused. */
  readonly delay: number
  /** How many distinct bands the levels 0–9 fall into: 10, 4, 3, 1. Level 10 (front) has a band of its own if `front`. */
  readonly bands: number
  readonly front: boolean
  /** Largest `Posting.frame`, in bytes. */
  readonly maxTask: number
  /** Largest `CommitRecord.bytes`. */
  readonly maxRecord: number
  /** How many milliseconds late a lease may end, and a due task may come. */
  readonly leaseResolution: number
  readonly dueResolution: number
  /** The lease is one for all workers of a queue, the longest that they ask for. Absent: each delivery has its own. */
  readonly sharedLease?: true
  /** A delivery belongs to the connection that took it: its token works there alone, and it is never `first`. No news of queues. */
  readonly leases?: "connection"
}

// ── Tasks ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A task on its way into a queue. */
export interface Posting {
  readonly id: string
  /** Publish key: `<id>/<run>/<retries>`. Two postings with the same key are the same task. */
  readonly key: string
  readonly queue: string
  /** 0–9; 10 is the front. Higher is taken first. */
  readonly level: number
  /** Not taken before this time. */
  readonly due?: number
  /** Not started after this time. The driver keeps such a task and lists it (`waiting`). */
  readonly expires?: number
  /** The fields to list the job by while it has no record. */
  readonly index: Index
  /** The whole task as bytes. */
  readonly frame: Uint8Array
  /** The same task as headers, properties and body, for brokers with a message form of their own (Celery's). */
  readonly message: Message
}

export type Receipt =
  | { readonly status: "stored" | "duplicate" }
  | { readonly status: "failed"; readonly error: TransportError }

export interface TakeRequest {
  readonly queues: ReadonlyArray<string>
  readonly max: number
  readonly wait: number
  readonly rotate: boolean
}

export interface Taken {
  readonly deliveries: ReadonlyArray<Delivery>
  /** Where no task was due: milliseconds until one of these queues has a task that falls due or loses its lease, if known. */
  readonly next?: number
}

/** One delivery of a task to a worker. */
export interface Delivery {
  /** Names this delivery. Never used twice. No line feeds. */
  readonly token: string
  readonly queue: string
  readonly level: number
  /** Orders the tasks of one queue and level. The same for every delivery of a task. */
  readonly sequence: number
  /**
   * Whether it is certain that this task was never delivered before. What an aborted take has given back uncounted was not
   * delivered.
   */
  readonly first: boolean
  /** Rises with each delivery of this task, compared as text (pad numbers). 1 to 40 characters, no spaces. */
  readonly fence: string
  /** How often this task was delivered, this time included; 1 where the broker does not count. */
  readonly deliveries: number
  /**
   * Another program has published the task, so that its id may be that of a job: `read` with `all` is asked for it. The
   * driver leaves it out where it knows that there is no such job.
   */
  readonly external?: boolean
  /** The frame as it was posted, or the message, decoded from it or from the broker's own form; or why it cannot be decoded. */
  readonly content: Uint8Array | Message | Undecodable
}

// ── Records ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * One change of one job. Its steps, in this order: **record**, then **post**, then **task**. An atomic driver does all or
 * none. Another driver does one after the other and stops at the first that fails; the runtime repeats the missing steps.
 *
 * 1. What can be refused without the broker (sizes, names, due times) is refused before the first step: `failed`.
 * 2. `record`: stored if the job's revision is `expect`; else `conflict`, and no further step is done. `""` holds only if
 *    nothing is stored under this id, not even a hidden record.
 * 3. `post`: as `publish` does; a duplicate counts as stored.
 * 4. `task`: done if this delivery still has its task. If the task is gone, or another delivery has it, nothing is done, and
 *    the answer is `committed` with `gone`. A broker that cannot tell may do it for a delivery whose lease ended.
 *
 * In one batch there is at most one commit per id. Several of them may post the same task: it is stored once, and all of
 * them are `committed`. The task may be of another job: a message that cannot be read as a task is recorded under an id
 * that the runtime makes up.
 */
export interface Commit {
  /** Id of the job of `record` and `withdraw`. Without these the runtime may have made it up. */
  readonly id: string
  readonly record?: CommitRecord
  readonly post?: ReadonlyArray<Posting>
  readonly task?: TaskEnd
  /**
   * Only for atomic drivers, in a commit with postings alone: if one of them is a duplicate, none is stored, and the answer
   * is `conflict` with `known`.
   */
  readonly unique?: true
}

export interface CommitRecord {
  readonly expect: Revision
  readonly bytes: Uint8Array
  readonly index: Index
  /**
   * Milliseconds to keep the record, at least, and at most ten seconds longer. Absent: until it is replaced. It replaces the
   * `keep` of the record before.
   */
  readonly keep?: number
}

export type TaskEnd =
  /** Removes the task from its queue. */
  | { readonly kind: "ack"; readonly token: string }
  /** Gives the task back. It is delivered again after `delay`, in the order of its old sequence, and counts as delivered. */
  | { readonly kind: "hand-back"; readonly token: string; readonly delay: number }
  /** Removes all tasks of this job that no delivery has. It may also remove one that a delivery has. */
  | { readonly kind: "withdraw" }

export type Committed =
  /** `revision` of the stored record; `""` for a commit without a record. `gone`: the delivery no longer had the task. */
  | { readonly status: "committed"; readonly revision: Revision; readonly gone?: true }
  /** `known`: ids of the duplicates in a commit that is `unique`. */
  | { readonly status: "conflict"; readonly known?: ReadonlyArray<string> }
  /** With a `revision` the record was stored, and a later step failed. */
  | { readonly status: "failed"; readonly error: TransportError; readonly revision?: Revision }

// ── News ────────────────────────────────────────────────────────────────────────────────────────────────────────────

export type Interest =
  | { readonly kind: "queues"; readonly queues: ReadonlyArray<string> }
  /**
   * `ends`: the caller waits for the end of the job, and reads its record once the promise has resolved. Tasks need not be
   * reported then, and it is enough that a record is either in that read or reported.
   */
  | { readonly kind: "job"; readonly id: string; readonly ends?: true }
  | { readonly kind: "jobs" }

export type News =
  /** A task became available: it was published, fell due, or was given back. */
  | { readonly kind: "queue"; readonly queue: string }
  /** A record was stored, or a task was published. `record` has the stored bytes where they cost the driver nothing. */
  | { readonly kind: "job"; readonly id: string; readonly record?: Uint8Array }
  | { readonly kind: "missed" }
