/**
 * The interface through which client and worker use a transport. `withJobs` builds it over a driver, and applies the rules of
 * claims, outcomes and decisions there, so that no driver has to know them.
 */
import type { JobPosting, Message, Undecodable } from "../../protocol/message.ts"
import type { JobRecord } from "../../protocol/record.ts"
import type { Delivery, Driver, Receipt, TakeRequest } from "../driver.ts"
import type { TransportError } from "../errors.ts"
import type { Query, QueueDepth } from "../optional.ts"
import type { Revision } from "../store.ts"

// ── Transport ───────────────────────────────────────────────────────────────────────────────────────────────────────

export interface Transport extends Pick<Driver, "name" | "capabilities" | "store" | "broadcast" | "onStatus"> {
  readonly jobs: Jobs
  /**
   * Sends what was accepted, ends calls of `take` that wait and all watches, and closes what this transport opened. May be
   * called twice. It does not wait for attempts that have not ended. Afterwards every call fails with `closed`.
   */
  close(): Promise<void>
}

// ── Jobs ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** What client and worker do with jobs. What is picked from {@link Driver} means the same, with the tokens of this interface. */
export interface Jobs extends Pick<Driver, "extend" | "orphans" | "queues" | "waiting"> {
  /**
   * Stores tasks, as durably as the capabilities declare, before it resolves. One receipt per task, in order; a task that
   * fails does not stop the others. A task whose publish key is stored already is `duplicate` and is not stored again. A
   * queue exists once a task was published to it. Rejects only if nothing was tried.
   */
  publish(postings: ReadonlyArray<JobPosting>): Promise<ReadonlyArray<Receipt>>

  /**
   * Stores all of these tasks or none: none where the publish keys of some are stored already, whose ids are the answer.
   * Fails with `unsupported` where a commit is not one transaction.
   */
  publishTogether(postings: ReadonlyArray<JobPosting>): Promise<ReadonlyArray<string>>

  /**
   * Takes up to `max` tasks that are due, ordered by queue (as listed), then level (high first), then sequence. With
   * `rotate` the queues take turns, from one call to the next, and levels order the tasks within each queue.
   *
   * A task that was accepted before a lower one is taken comes first. An exception are brokers that are asked one queue and
   * level after the other (nats): a task that is accepted during the call may come after the at most `max` tasks that the
   * call returns.
   *
   * Waits up to `wait` for the first task, then returns the tasks that are there. When the signal fires it resolves soon
   * with an empty list; tasks that arrive after that go back to their queue. One delivery at a time has a task, until its
   * lease ends.
   */
  take(request: TakeOptions, signal: AbortSignal): Promise<ReadonlyArray<JobDelivery>>

  /**
   * Stores the claim of a delivery on its job, before the handler starts. Needed for every delivery that is not `fresh`;
   * a fresh delivery may claim too, and its record is then made of the task. The claim is a compare-and-set against the
   * stored record, by the first of these rules that applies:
   *
   * 0. The id is that of another job: `taken`.
   * 1. The run has ended, continues in a successor of this task, or a later run is stored, or this task was taken off its
   *    queue before its attempt started (`isTakenEarly`): `finished`, whatever the fences. The record is enough to publish
   *    the follow-ups, also once it is a tombstone.
   * 2. The fence is lower than the stored one, or another delivery has the task: `superseded`.
   * 3. This delivery has claimed the job before (`isClaimOf`), and the answer was lost: `started`, and nothing is written.
   *    A claim that is sent again never counts twice, neither in `claims` nor in `attempt` nor in the timeline.
   * 4. An earlier delivery has begun the job and never ended it, and `unlessSuspect` is set: `suspect`.
   * 5. Else `started`: the stored record then has state `started`, this fence, this worker and one more in `claims`, and
   *    no time to live.
   */
  claim(starts: ReadonlyArray<Claim>): Promise<ReadonlyArray<ClaimAnswer>>

  /**
   * Stores the state, progress and worker of an attempt that is running. The last report of a job replaces the ones
   * before. Reports may be less durable than records, and a report may be dropped when a later one or the outcome arrives.
   * A report of an outdated delivery is ignored without an error.
   */
  report(reports: ReadonlyArray<Report>): Promise<void>

  /**
   * Ends attempts. In this order, or as one transaction: the record is stored by compare-and-set (fence), the follow-ups
   * are published (once each, by publish key), the task is acked or released. On `superseded` none of it happens. A token
   * may store records after its task was acked: with early acknowledgement the outcome comes after the ack.
   */
  settle(ends: ReadonlyArray<Settlement>): Promise<ReadonlyArray<SettleAnswer>>

  /**
   * The record of a job in any state: waiting, scheduled, running, ended, tombstone. A job that moves between queue and
   * record during the call is not missed. While a task of the job is in a queue and the job has not ended, the record
   * carries that task as `message`.
   *
   * A record that was kept for its `keepMs` comes as a tombstone (`tombstoneOf`: without result, error and message, but
   * with the follow-ups, which may still have to be published) for at least {@link TOMBSTONE_MS} more, and for as long as a
   * task of the job is in a queue; after that the job is not found.
   */
  find(id: string): Promise<Found | undefined>

  /**
   * The record of a job that has ended, as {@link find} returns it; `undefined` where no end is stored. It costs one lookup,
   * where `find` costs several.
   */
  ended(id: string): Promise<JobRecord | undefined>

  /**
   * Stores decisions about jobs that no delivery makes: cancel, rerun, delete. Each is a compare-and-set. The record has an
   * empty fence, so that no delivery takes it for its own. In this order, or as one transaction: the record, then
   * `withdraw` (removes the waiting task from its queue), then `post`. Where these are several steps, a process that dies
   * between them may leave a task unpublished: `orphans` finds such jobs, and the decision can be made again. With
   * `""` as the expected revision the record may be of a job without a task so far: one that waits for other jobs.
   */
  decide(decisions: ReadonlyArray<Decision>): Promise<ReadonlyArray<DecisionAnswer>>

  /** Names of all queues that were used, also if nothing is in them, and were not forgotten since. */
  queueNames(): Promise<ReadonlyArray<string>>

  /** Takes a queue off {@link queueNames} until it is used again. What is in the queue stays there. */
  forgetQueue(queue: string): Promise<void>

  /** Newest first: by last change where the transport orders so, by submission otherwise. Tombstones are left out. */
  list(query: RecordQuery): Promise<RecordPage>

  /**
   * How many jobs match: up to `max`, or until the budget is over, and then with `more`. Where `max` is absent it is
   * {@link COUNTED}, but for what the driver can count by state and queue without reading jobs: that is exact. What is in a
   * queue is counted as `states` tells it; by default as {@link Driver.queues} does, with all that workers have as started.
   */
  count(
    query: Omit<RecordQuery, "limit" | "after">,
    max?: number,
    states?: () => Promise<ReadonlyArray<QueueStates>>,
  ): Promise<JobCount>

  /**
   * Calls the listener with records as they change, of one job or of all, from when the promise resolves until the signal
   * fires. Best effort: changes during a disconnection are not repeated, and of several quick changes a listener may get
   * only the latest.
   *
   * `ends`: only the end of the job is of interest, and the caller asks {@link ended} once the promise has resolved: an end
   * that is stored before is known there.
   */
  watch(filter: WatchFilter, listener: (record: JobRecord) => void, signal: AbortSignal): Promise<void>
}

export interface WatchFilter {
  /** Absent: all jobs. */
  readonly id?: string
  readonly ends?: true
  /** Beside `ends`: the job was submitted by this process just now. */
  readonly isNew?: boolean
}

/** What to take, as a driver is asked. Without `rotate` in strict order of the queues. */
export interface TakeOptions extends Omit<TakeRequest, "rotate"> {
  readonly rotate?: boolean
}

export interface JobDelivery extends Pick<Delivery, "queue" | "level" | "sequence" | "deliveries"> {
  /** Names this delivery to `claim`, `settle` and `extend`. */
  readonly token: string
  /** Names the attempt. Higher, compared as text, for each later delivery of a job. */
  readonly fence: string
  /** No other delivery or decision can have stored anything about the job, so that no claim is needed. */
  readonly fresh: boolean
  readonly message: Message | Undecodable
}

export interface Claim {
  readonly token: string
  readonly id: string
  readonly run: number
  readonly retries: number
  readonly worker: string
  /** The version of its application. */
  readonly version?: string | undefined
  readonly at: number
  /** The task of this delivery. The record is made of it when none is stored yet. */
  readonly posting: JobPosting
  /** Digest of the task's body, by which another task under its id is told from it. */
  readonly digest?: string
  /**
   * Marks the job as one whose steps are undone where it ends without success. A job that this delivery has claimed
   * already stays claimed.
   */
  readonly reverts?: boolean
  /** Whether to answer `suspect` instead of claiming a job that an earlier delivery has begun and never ended. */
  readonly unlessSuspect?: boolean
}

export type ClaimAnswer =
  /**
   * The delivery has the job. `record` is the one before this claim (its `claims` do not count this one); absent if there
   * was none. For a claim that was sent again it is the stored record without that claim (`unclaimed`).
   */
  | { readonly status: "started"; readonly record?: JobRecord }
  /**
   * The run has ended, continues in a successor of this task, or has its task off the queue already. The worker publishes
   * the follow-ups again and acks the task.
   */
  | { readonly status: "finished"; readonly record: JobRecord }
  /** A later delivery has the job. The worker leaves the task alone. */
  | { readonly status: "superseded" }
  /** Nothing was written: the task has the id of this other job. */
  | { readonly status: "taken"; readonly by: JobRecord }
  /** Nothing was written: an earlier delivery has begun the job and never ended it. Only where that was asked for. */
  | { readonly status: "suspect" }
  | { readonly status: "failed"; readonly error: TransportError }

export interface Report {
  readonly token: string
  readonly record: JobRecord
  /** Reported for the process that has the delivery, which renews what is reported. Absent: this process renews it. */
  readonly onBehalf?: true
}

export interface Settlement {
  readonly token: string
  /**
   * Stored by compare-and-set before anything else. Refused as `superseded` when a higher fence, a terminal record of this
   * run, or a later run is stored; for a record that begins the next run, a terminal record of the run before counts too.
   * A stored record with the same fence that is terminal, or names the same successor, means that the answer to an earlier
   * call was lost: it counts as stored now. The record gets the fence of this delivery. Absent: nothing is stored.
   */
  readonly record?: JobRecord
  /** Published after the record and before the ack. */
  readonly followUps?: ReadonlyArray<JobPosting>
  /** The result of a task whose client ignores it, which is not stored. A chord needs it all the same. */
  readonly ignored?: unknown
  /** `ack` removes the task from its queue; `hand-back` gives it back, to be delivered again after `delay` milliseconds. */
  readonly then: { readonly kind: "ack" } | { readonly kind: "hand-back"; readonly delay: number }
}

export type SettleAnswer =
  | { readonly status: "ended" }
  /** A newer delivery has the job, or a decision such as a cancel ended it. Nothing was stored, published or acked. */
  | { readonly status: "superseded" }
  /** The delivery no longer has the task. Record and follow-ups, if any, were stored. */
  | { readonly status: "gone" }
  /** `retryable`: end the attempt again. `too-large` or `invalid`: end it with another record. */
  | { readonly status: "failed"; readonly error: TransportError }

// ── Decisions and lists ─────────────────────────────────────────────────────────────────────────────────────────────

export interface Found {
  readonly record: JobRecord
  /**
   * Whether a worker may run its task that has not said so: a delivery has the task now, or had it before. Absent: none ever
   * had it.
   */
  readonly taken?: "now" | "before"
  /** `""`: no record is stored, and this one is made of the task in the queue. */
  readonly revision: Revision
}

/** How long a tombstone stays after the record's `keepMs` have passed, in milliseconds: one hour. */
export const TOMBSTONE_MS = 3_600_000

export interface Decision {
  readonly id: string
  readonly expect: Revision
  readonly record: JobRecord
  readonly withdraw?: boolean
  readonly post?: ReadonlyArray<JobPosting>
}

export type DecisionAnswer =
  | { readonly status: "decided" }
  /** The record has changed since it was read: find the job and decide again. */
  | { readonly status: "conflict" }
  | { readonly status: "failed"; readonly error: TransportError }

/** What a driver is asked, with the names that records have. */
export interface RecordQuery
  extends Pick<
    Query,
    "states" | "task" | "queue" | "group" | "since" | "until" | "error" | "idEnds" | "budget" | "signal"
  > {
  readonly rootId?: string
  readonly parentId?: string
  /** Only dead letters. */
  readonly dead?: boolean
  /** Only dead letters that were given up for this reason. */
  readonly reason?: string
  /** Jobs on a page, 1–1,000. */
  readonly limit: number
  /** `next` of a page of the same query on the same board; another text fails with `invalid`. */
  readonly after?: string
}

/** Most jobs that are read to count them. */
export const COUNTED = 1_000

/** The depth of a queue, by the states of the jobs. */
export interface QueueStates extends QueueDepth {
  /** Due, and no handler runs. */
  readonly queued: number
  readonly scheduled: number
  /** A handler runs. */
  readonly started: number
}

export interface JobCount {
  readonly count: number
  /** There are more than `count`. */
  readonly more?: true
}

export interface RecordPage {
  readonly records: ReadonlyArray<JobRecord>
  /** Absent on the last page. */
  readonly next?: string
  /** The search was cut, after its budget or by its signal: `next` goes on. */
  readonly partial?: true
  /** How many rows, entries or messages the driver has read, where it tells. */
  readonly scanned?: number
}
