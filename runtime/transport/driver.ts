/**
 * What a transport must do. A driver moves bytes: it stores tasks in queues, hands them to workers, and stores one record
 * per job. The runtime decides what a record says, which worker is too late, and what follows from an outcome.
 *
 * Rules for every method: it takes a batch and answers item by item, in order; one item that fails does not stop the others.
 * It may be called at any time, also at the same time. It throws only a `TransportError`, and only when nothing was tried.
 * It ends within a bound when the broker does not answer. It never retries by itself what the caller can retry.
 * Times are milliseconds since the epoch, durations are milliseconds. Ids are text of 1 to 255 bytes, queue names too.
 */
import type { Message } from "../protocol/message.ts"
import type { TransportError } from "./errors.ts"
import type { Index, Known } from "./known.ts"
import type { Broadcast, Queries, QueueBrowser } from "./optional.ts"
import type { Revision, Store } from "./store.ts"

/** What a plugin module exports as `plugin` or as its default export. */
export interface Plugin {
  /** URL schemes it serves, without the colon. */
  readonly schemes: ReadonlyArray<string>
  /** Connects once, within `options.timeout`. Fails with `unavailable`, `unauthorized`, `unsupported` or `invalid`. */
  connect(url: URL, options: ConnectOptions): Promise<Driver>
  /** Uses a client object that the application holds; `undefined` if it is not this plugin's. `close` leaves it open. */
  adopt?(client: unknown, options: ConnectOptions): Promise<Driver> | undefined
}

/** What the runtime tells a plugin that connects. */
export interface ConnectOptions {
  /** Prefixes every stream, subject, key and row, so that several boards share a server. `[A-Za-z0-9_-]{1,64}`. */
  readonly namespace: string
  /** How long a delivery is ours unless extended. At least 1,000 or the declared resolution. */
  readonly lease: number
  /** Name of the connecting process, for the broker's own tools. */
  readonly name: string
  /** Bound on connecting. */
  readonly timeout: number
  /**
   * Keep-alive of the connection, looked at twice as often: it counts as lost after one to one and a half of these
   * intervals without a sign of life. 0: it is not watched. Absent: as the plugin sees fit. A plugin without a
   * connection ignores it.
   */
  readonly heartbeat?: number
  /** How long to wait before a try to connect again, counted from 1. Absent: as the plugin sees fit. */
  readonly reconnectDelay?: (tries: number) => number
}

/** Queues and records over one broker or database. Each optional part is whole or absent. */
export interface Driver extends Partial<QueueBrowser>, Partial<Queries> {
  readonly name: string
  readonly capabilities: Capabilities
  /** Keyed values: what workers share. Limits, pauses, dependencies, the worker list and progress live in it. */
  readonly store: Store
  /** Announcements to all processes that listen. Absent: no remote control and no live events. */
  readonly broadcast?: Broadcast

  /**
   * Stores tasks, as durably as declared before it answers. `duplicate`: this `key` is in a queue now, or was published
   * within `dedupeWindow`; nothing was stored. Queues begin to exist by use.
   */
  publish(postings: ReadonlyArray<Posting>): Promise<ReadonlyArray<Receipt>>

  /**
   * Hands over at most `max` tasks that are due, ordered by queue (as listed), level (high first) and sequence; with
   * `rotate` the queues take turns of one task, from one call to the next. A task that was accepted before this call began
   * comes before lower ones of it. A task belongs to one delivery until its lease ends, then it comes again.
   *
   * Where `capabilities.waits`, it waits up to `wait` for the first task; else it answers at once. When the signal fires it
   * answers soon with nothing, and gives back what arrives late, undelayed and, where the broker can, uncounted. It fails
   * with `unavailable` when it cannot ask the broker: an empty answer means that the broker has nothing.
   */
  take(request: TakeRequest, signal: AbortSignal): Promise<Taken>

  /**
   * Lengthens leases to a full lease from now. `true` only if the delivery still has its task: never after the task was
   * handed to another delivery. A broker that cannot tell so (the acknowledgements of JetStream) answers what it can tell:
   * the runtime goes by fences. A token is plain text and works from every thread and process that opened the same URL.
   */
  extend(tokens: ReadonlyArray<string>): Promise<ReadonlyArray<boolean>>

  /**
   * What is known about jobs. It sees every commit that was answered before it began, by any process.
   * `record`: only the stored record is needed (one lookup). `all`: also the task in the queue; a job that moves between
   * queue and record must never be missed, so look where it was before where it goes, and confirm a miss once.
   */
  read(ids: ReadonlyArray<string>, what: "record" | "all"): Promise<ReadonlyArray<Known | undefined>>

  /** Does what the commits say; see {@link Commit}. */
  commit(commits: ReadonlyArray<Commit>): Promise<ReadonlyArray<Committed>>

  /**
   * Needed unless `capabilities.atomic`. Ids of jobs, oldest first, whose record says `queued` or `scheduled`, was stored
   * at `before` or earlier, and of which no task is in any queue: their posting was lost between two steps of a commit. It
   * may name a job that is in motion. A record that was found healthy once need not be looked at again.
   */
  orphans?(before: number, max: number): Promise<ReadonlyArray<string>>

  /**
   * Tells of changes that anybody made, from when the promise resolves until the signal fires. Best effort: the runtime also
   * looks by itself, seldom. A `take` or `read` that begins after the news must see what the news is about. The driver may
   * tell more than was asked for. `missed`: news may have been lost, for instance during a reconnection.
   */
  listen(interest: Interest, listener: (news: News) => void, signal: AbortSignal): Promise<void>

  /** Calls the listener on each change between reachable and not. Returns how to stop. Starts as reachable. */
  onStatus(listener: (status: "connected" | "disconnected", why?: TransportError) => void): () => void

  /** Ends waiting takes, and closes what it opened. Idempotent. Later calls fail with `closed`. Does not wait for deliveries. */
  close(): Promise<void>
}

/** Declared, and tested by the conformance kit. */
export interface Capabilities {
  /** What an answered publish or commit survives. */
  readonly durability: "none" | "process" | "server" | "fsync" | "quorum"
  /** Which processes can meet on it. */
  readonly reach: "process" | "host" | "network"
  /** Record, postings and task of one commit are one transaction. */
  readonly atomic: boolean
  /** `take` waits by itself. */
  readonly waits: boolean
  /** How long a publish key is remembered after publishing, in milliseconds. `Infinity`: for as long as the job's record. */
  readonly dedupeWindow: number
  /** Longest time that `due` and a delayed release may lie ahead, in milliseconds. What lies further ahead is refused. */
  readonly delay: number
  /** How many distinct bands the levels 0–9 fall into: 10, 4, 3, 1. Level 10 (front) has a band of its own if `front`. */
  readonly bands: number
  readonly front: boolean
  /** Largest `Posting.frame`, in bytes. */
  readonly maxTask: number
  /** Largest `CommitRecord.bytes`. */
  readonly maxRecord: number
  /** A lease may end this much late, a due task may come this much late, in milliseconds. */
  readonly leaseResolution: number
  readonly dueResolution: number
}

// ── Tasks ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A task on its way into a queue. */
export interface Posting {
  readonly id: string
  /** Publish key: `<id>/<run>/<retries>`. Two postings with one key are the same task. */
  readonly key: string
  readonly queue: string
  /** 0–9; 10 is the front. Higher is taken first. */
  readonly level: number
  /** Not to be taken before. */
  readonly due?: number
  /** Not to be started after. The driver never drops such a task; it only lists it (`waiting`). */
  readonly expires?: number
  /** What lists look for, for as long as the task is all that is known of the job. */
  readonly index: Index
  /** The whole task as bytes; made when it is first asked for. */
  readonly frame: Uint8Array
  /** The same as headers, properties and body, for brokers with a message form of their own (Celery's). */
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
  /** Nothing was there: in how many milliseconds something in these queues falls due or loses its lease, if known. */
  readonly next?: number
}

/** One handing-over of a task. */
export interface Delivery {
  /** Names this delivery. Never used twice. No line feeds. */
  readonly token: string
  readonly queue: string
  readonly level: number
  /** Orders the tasks of one queue and level. The same for every delivery of a task. */
  readonly sequence: number
  /** For certain this task was never handed over before. If in doubt: false. */
  readonly first: boolean
  /** Rises with each delivery of this task, compared as text (pad numbers). 1 to 40 characters, none of them a space. */
  readonly fence: string
  /** How often this task was handed over, this time included; 1 when it is not counted. */
  readonly deliveries: number
  /** The frame as it was posted, or the message that was made of the broker's own form. */
  readonly content: Uint8Array | Message
}

// ── Records ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * One change of one job. Steps, in this order: **record**, then **post**, then **task**. An atomic driver does all or none.
 * Another one does them one after the other and stops at the first that fails; the runtime repeats what is missing.
 *
 * 1. Everything that can be refused without the broker (sizes, names, due times) is refused before the first step: `failed`.
 * 2. `record`: stored if the job's revision is `expect`; else `conflict`, and no further step is done. `""` holds only if
 *    nothing is stored under this id, not even a hidden record.
 * 3. `post`: as `publish` does; a duplicate is as good as stored.
 * 4. `task`: done if this delivery still has its task. If the task is gone, or another delivery has it, nothing is done, and
 *    the answer is `committed` with `gone`. A broker that cannot tell may do it for a delivery whose lease ended.
 *
 * In one batch there is at most one commit per id. The task need not be of this job: what cannot be read as a task is recorded
 * under an id that the runtime makes up.
 */
export interface Commit {
  /** Of the job that record and `withdraw` are about; without these a text that the runtime may have made up. */
  readonly id: string
  readonly record?: CommitRecord
  readonly post?: ReadonlyArray<Posting>
  readonly task?: TaskEnd
}

export interface CommitRecord {
  readonly expect: Revision
  readonly bytes: Uint8Array
  readonly index: Index
  /** Kept at least this long from now, then removed. Absent: kept until it is replaced. The keep of the record before is void. */
  readonly keep?: number
}

export type TaskEnd =
  /** Takes the task off its queue. */
  | { readonly kind: "ack"; readonly token: string }
  /** Gives the task back; it comes again after `delay`, in its old place. It counts as delivered. */
  | { readonly kind: "release"; readonly token: string; readonly delay: number }
  /** Takes off their queues all tasks of this job that no delivery has; one that a delivery has may go too. */
  | { readonly kind: "withdraw" }

export type Committed =
  /** `revision`: of the record that was stored; `""` if none was given. */
  | { readonly status: "committed"; readonly revision: Revision; readonly gone?: true }
  | { readonly status: "conflict" }
  /** `revision`: the record was stored, a later step failed. */
  | { readonly status: "failed"; readonly error: TransportError; readonly revision?: Revision }

// ── News ────────────────────────────────────────────────────────────────────────────────────────────────────────────

export type Interest =
  | { readonly kind: "queues"; readonly queues: ReadonlyArray<string> }
  | { readonly kind: "job"; readonly id: string }
  | { readonly kind: "jobs" }

export type News =
  /** A task can be taken now that could not before: published, fallen due, given back. */
  | { readonly kind: "queue"; readonly queue: string }
  /** A record was stored, or a task was published. With what was stored, where that costs nothing. */
  | { readonly kind: "job"; readonly id: string; readonly record?: Uint8Array }
  | { readonly kind: "missed" }
