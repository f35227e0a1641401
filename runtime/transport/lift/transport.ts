/**
 * What client and worker use of a transport: the interface that `lift` makes of a driver. The rules of claims, outcomes and
 * decisions are behind it, once for all drivers.
 */
import type { AddressedTask, Message, Undecodable } from "../../protocol/message.ts"
import type { JobRecord } from "../../protocol/record.ts"
import type { State } from "../../protocol/state.ts"
import type { Capabilities, Receipt, TakeRequest } from "../driver.ts"
import type { TransportError } from "../errors.ts"
import type { Broadcast, QueueBrowser } from "../optional.ts"
import type { Revision, Store } from "../store.ts"

// ── Transport ───────────────────────────────────────────────────────────────────────────────────────────────────────

export interface Transport {
  readonly name: string
  readonly capabilities: Capabilities
  readonly jobs: Jobs
  readonly store: Store
  readonly broadcast?: Broadcast
  /**
   * Called on each change between reachable and not, with the reason where the transport knows one; returns how to stop
   * listening. Starts as reachable.
   */
  onStatus(listener: (status: "connected" | "disconnected", why?: TransportError) => void): () => void
  /**
   * Flushes what was accepted, ends waiting pulls and watches, closes what this transport opened. Idempotent; must
   * not wait for deliveries that are not settled. Afterwards every call fails with `closed`.
   */
  close(): Promise<void>
}

// ── Jobs ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * All that client and worker do with jobs. Depths of queues and what waits in them can be asked for where the driver has
 * them; see `QueueBrowser`.
 */
export interface Jobs extends Partial<QueueBrowser> {
  /**
   * Stores tasks, as durably as declared before it resolves. One receipt per posting, in order; one posting that fails
   * fails alone. The same publish key again is `duplicate` and stores nothing. Queues come into being by use.
   * Rejects only if nothing at all was tried.
   */
  publish(postings: ReadonlyArray<AddressedTask>): Promise<ReadonlyArray<Receipt>>

  /**
   * Takes up to `max` tasks that are due, by queue (as listed), then level (high first), then sequence, as this pull finds
   * them. Where a broker is asked one queue and level after the other (nats), a task that is accepted while a pull is
   * under way, or that the broker has not heard of yet when it is asked, may come after what that pull brings (never more
   * than `max`); elsewhere one that was accepted before a lower one is taken goes first. With `rotate` the queues take
   * turns, from one pull to the next, and levels count within each. Waits up to `wait` for the first one and then returns
   * what there is. Aborting the signal resolves with an empty list soon; tasks that arrive late for it are handed back,
   * never stranded. A task is in the hands of one delivery at a time, until its lease lapses.
   */
  take(request: TakeOptions, signal: AbortSignal): Promise<ReadonlyArray<JobDelivery>>

  /**
   * Writes, before the handler starts, that this delivery runs the job: needed for every delivery that is not `fresh`,
   * allowed for those that are, whose record is made of the posting. By compare-and-set against the record, which is
   * looked at in this order:
   *
   * 1. The run is over, went on to a successor of this posting, or a later run is stored, or this posting was taken off
   *    its queue before it started (`isTakenEarly`): `finished`, whatever the fences. The record is enough to publish the follow-ups, also once it is a tombstone.
   * 2. The fence is lower than the stored one, or another delivery has the task: `superseded`.
   * 3. This very delivery has claimed already (`isClaimOf`), and the answer was lost: `claimed`, and nothing is written.
   *    A claim that is sent again never counts twice, neither in `claims` nor in `attempt` nor in the timeline.
   * 4. Else `claimed`: the stored record then has state `started`, this fence, this worker and one more in `claims`, and
   *    no time to live.
   */
  begin(starts: ReadonlyArray<AttemptStart>): Promise<ReadonlyArray<StartAnswer>>

  /**
   * Says that a run goes on: state, progress, worker. Last value wins; may be less durable than records and may be
   * dropped when a later one or the outcome overtakes it. Refused silently when the fence is outdated.
   */
  report(reports: ReadonlyArray<Report>): Promise<void>

  /**
   * AttemptEnder deliveries. In this order, or as one transaction: the record by compare-and-set (fence), then the
   * follow-ups (idempotent by publish key), then the ack or release. On `superseded` nothing else happens. A token goes
   * on to settle records after its task was acked: a job that is taken off its queue early has its outcome later.
   */
  end(ends: ReadonlyArray<AttemptEnd>): Promise<ReadonlyArray<EndAnswer>>

  /**
   * Extends leases to a full lease from now. Returns, in order, whether each was still ours. A token is plain text and
   * works from any thread that opened the same URL (in-process transports excepted).
   */
  extend(tokens: ReadonlyArray<string>): Promise<ReadonlyArray<boolean>>

  /**
   * The record of a job wherever it is: waiting, scheduled, running, ended, tombstone. Looks where a job was before
   * where it goes and confirms a miss once, so that a job in motion is never missed. While its task is in the queue,
   * the record carries that task as `message`, unless it is over. A record past its `keepMs` comes as a tombstone
   * (`tombstoneOf`: without result, error and message, but with the follow-ups, which may still have to be published)
   * for at least {@link TOMBSTONE_MS} more, then not at all; it should stay while a task of the job is in a
   * queue.
   */
  find(id: string): Promise<Found | undefined>

  /**
   * Compare-and-set from outside a delivery: cancel, rerun, delete. Such a record has an empty fence, so that no
   * delivery takes it for its own. In this order, or as one transaction: the record,
   * then `withdraw` (takes the waiting task out of the queue), then `post`. Where that is not one transaction, a posting
   * may be lost with the process that posts it: {@link orphans} finds such jobs, so that the same change can be made again.
   * With `""` as the expected revision it may be the record of a job that was not posted yet: one that waits for others.
   */
  decide(decisions: ReadonlyArray<Decision>): Promise<ReadonlyArray<DecisionAnswer>>

  /**
   * Ids of jobs, oldest first, that wait in vain: their record says `queued` or `scheduled`, holds its own `message`, was
   * stored at `before` or earlier, and no task of theirs is in any queue. May name a job that is just in motion: whoever
   * posts its task again does so by compare-and-set. For maintenance; absent where record and posting are one transaction.
   */
  orphans?(before: number, max: number): Promise<ReadonlyArray<string>>

  /** Newest first: by last change where the transport orders so, by submission otherwise. Tombstones are left out. */
  list(query: RecordQuery): Promise<RecordPage>

  /**
   * Records as they change, of one job or of all, from the moment the promise resolves. Best effort: what
   * happened while disconnected is not repeated; a slow reader may see only the latest of several. AttemptEnder with the signal.
   */
  watch(filter: { readonly id?: string }, listener: (record: JobRecord) => void, signal: AbortSignal): Promise<void>
}

/** What to take, as a driver is asked. Without `rotate` in strict order of the queues. */
export interface TakeOptions extends Omit<TakeRequest, "rotate"> {
  readonly rotate?: boolean
}

export interface JobDelivery {
  /** Names this delivery to `begin`, `end` and `extend`. */
  readonly token: string
  /** Strictly rising over all deliveries of a job, compared as text. */
  readonly fence: string
  readonly queue: string
  readonly level: number
  /** Orders deliveries of one queue and level. */
  readonly sequence: number
  /** Nothing but this delivery can have written about the job: no claim is needed. */
  readonly fresh: boolean
  /** How often the broker handed this task over, this time included; 1 when it does not count. Not an attempt. */
  readonly deliveries: number
  readonly message: Message | Undecodable
}

export interface AttemptStart {
  readonly token: string
  readonly id: string
  readonly run: number
  readonly retries: number
  readonly worker: string
  readonly at: number
  /** The task of this delivery: what the record is made of when there is none yet. */
  readonly posting: AddressedTask
}

export type StartAnswer =
  /**
   * Ours. `record` is as stored before this claim (its `claims` do not count this one); absent if there was none. Of a
   * claim that was sent again it is what is stored with that claim taken back (`unclaimed`).
   */
  | { readonly status: "started"; readonly record?: JobRecord }
  /**
   * The job's run is over, went on to a successor of this posting, or has this posting off its queue already: publish its
   * follow-ups again, then ack.
   */
  | { readonly status: "finished"; readonly record: JobRecord }
  /** Another delivery is ahead: do nothing. */
  | { readonly status: "superseded" }
  | { readonly status: "failed"; readonly error: TransportError }

export interface Report {
  readonly token: string
  readonly record: JobRecord
}

export interface AttemptEnd {
  readonly token: string
  /**
   * Stored by compare-and-set before anything else: refused as `superseded` when a higher fence, a terminal record of
   * this run or a later run is stored, also of the run before one that the record begins; a stored record with this very fence that is terminal, or names the same
   * successor, is a lost acknowledgement: as if it had just been stored. Its `fence` is this delivery's. Absent:
   * nothing to store.
   */
  readonly record?: JobRecord
  /** Published after the record and before the ack. */
  readonly followUps?: ReadonlyArray<AddressedTask>
  /** `ack` takes the task off the queue; `release` hands it back, to be delivered again after `delay`. */
  readonly then: { readonly kind: "ack" } | { readonly kind: "release"; readonly delay: number }
}

export type EndAnswer =
  | { readonly status: "ended" }
  /** A newer delivery, or a decision from outside (a cancel), has the job. Nothing was stored, published or acked. */
  | { readonly status: "superseded" }
  /** The task is not in the queue any more; record and follow-ups, if any, were stored. */
  | { readonly status: "gone" }
  /** `retryable`: settle again. `too-large` or `invalid`: settle with another record. */
  | { readonly status: "failed"; readonly error: TransportError }

// ── Decisions and lists ─────────────────────────────────────────────────────────────────────────────────────────────

export interface Found {
  readonly record: JobRecord
  /** `""`: nothing is stored, the record is derived from the task in the queue. */
  readonly revision: Revision
}

/** How long an ended record's tombstone stays after the record itself is over. */
export const TOMBSTONE_MS = 3_600_000

export interface Decision {
  readonly id: string
  readonly expect: Revision
  readonly record: JobRecord
  readonly withdraw?: boolean
  readonly post?: ReadonlyArray<AddressedTask>
}

export type DecisionAnswer =
  | { readonly status: "decided" }
  /** The revision is outdated: find again and decide again. */
  | { readonly status: "conflict" }
  | { readonly status: "failed"; readonly error: TransportError }

export interface RecordQuery {
  readonly states?: ReadonlyArray<State>
  /** The task header, or task and method joined by a dot: `isOfTask` of the protocol says. */
  readonly task?: string
  readonly queue?: string
  readonly rootId?: string
  readonly parentId?: string
  readonly group?: string
  /** Only dead letters. */
  readonly dead?: boolean
  /** 1–1,000. */
  readonly limit: number
  /** `next` of the page before. Opaque; a cursor that cannot be read fails with `invalid`. */
  readonly after?: string
}

export interface RecordPage {
  readonly records: ReadonlyArray<JobRecord>
  /** Absent on the last page. */
  readonly next?: string
}
