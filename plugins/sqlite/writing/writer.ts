/**
 * Group commit. Whatever is asked in one turn of the event loop, or while another process holds the lock, shares the
 * next transaction; a single call on an idle board costs one commit and waits for nothing.
 *
 * Work that fails is taken out and fails alone: the transaction is repeated without it. The lock is only ever tried,
 * never waited for, so that the event loop runs on. A disk that takes nothing more counts as out of reach, until it has
 * taken something that is tried now and then.
 */
import { TransportError } from "../../../runtime/transport/mod.ts"
import type { Database } from "../database/database.ts"
import { faultOf, isBusy, isDatabaseWide, isFull } from "../database/fault.ts"
import { Counter, Transaction } from "./transaction.ts"

/** One thing to do inside a transaction. It may run more than once; only the last time counts. */
interface Work {
  readonly since: number
  /** Whether it must be on the disk before it counts as done. */
  readonly durable: boolean
  run(transaction: Transaction): void
  committed(): void
  failed(error: TransportError): void
}

/** Somebody who takes part in every transaction. */
export interface Participant {
  /** Whether a transaction is needed for its sake alone. */
  wants(): boolean
  /** Called after all work of a transaction, before its commit. */
  join(transaction: Transaction): void
  committed(transaction: Transaction): void
  /** What `join` did has not happened. */
  rolledBack(): void
  /** What it wanted cannot be done. */
  failed(error: TransportError): void
}

/** How long one transaction may go on taking work, in milliseconds: what is left waits for the next turn. */
const SLICE_MS = 4

/** How long work waits for the lock before it fails as `unavailable`. */
const LOCK_TIMEOUT_MS = 1_500

/** Transactions in a row that may fail because of a participant before all work fails with them. */
const MAX_PARTICIPANT_FAILURES = 3

/** How long after a fault of the disk it is tried: at first, and at most. Each time twice as long. */
const PROBE_MS = 250
const MAX_PROBE_MS = 5_000

/** A disk that fails again within this time is tried as seldom as before: one that is nearly full takes something at times. */
const HEALTHY_MS = 30_000

/** Between two attempts at the lock, in milliseconds: other processes hold it for about as long. */
const shortPause = (): number => 0.1 + Math.random() * 1.2
const longPause = (): number => 20 + Math.random() * 30

export class Writer {
  readonly #database: Database
  readonly #counter: Counter
  readonly #jobsWatched: () => boolean
  readonly #participants: ReadonlyArray<Participant>
  readonly #onStatus: (connected: boolean, why?: TransportError) => void
  readonly #begin
  readonly #commit
  readonly #rollback

  #queue: Array<Work> = []
  #scheduled = false
  /** Since when the lock is held by others; 0 when it is not. */
  #busySince = 0
  #broken: TransportError | undefined
  /** What the disk said when it last refused, until it takes something again. */
  #fault: TransportError | undefined
  #healthySince = Number.NEGATIVE_INFINITY
  #probeMs = PROBE_MS
  #probing: ReturnType<typeof setTimeout> | undefined
  /** Transactions in a row that failed because of a participant. */
  #participantFailures = 0
  readonly #idle: Array<() => void> = []

  constructor(
    database: Database,
    options: {
      readonly participants: ReadonlyArray<Participant>
      readonly jobsWatched: () => boolean
      readonly onStatus: (connected: boolean, why?: TransportError) => void
    },
  ) {
    this.#database = database
    this.#counter = new Counter(database)
    this.#participants = options.participants
    this.#jobsWatched = options.jobsWatched
    this.#onStatus = options.onStatus
    this.#begin = database.prepare("BEGIN IMMEDIATE")
    this.#commit = database.prepare("COMMIT")
    this.#rollback = database.prepare("ROLLBACK")
  }

  /** Runs `run` inside the next transaction; resolves with what it returned once that is as durable as declared. */
  do<T>(run: (transaction: Transaction) => T): Promise<T> {
    return this.#add(run, true)
  }

  /**
   * The same for what may be forgotten when the machine loses power, because then it means nothing any more: leases,
   * who listens, news. Committed in order with everything else, but the disk is not waited for.
   */
  doWithoutSync<T>(run: (transaction: Transaction) => T): Promise<T> {
    return this.#add(run, false)
  }

  #add<T>(run: (transaction: Transaction) => T, durable: boolean): Promise<T> {
    if (this.#broken !== undefined) return Promise.reject(this.#broken)
    return new Promise<T>((resolve, reject) => {
      let result: T
      this.#queue.push({
        since: performance.now(),
        durable,
        run: (transaction) => {
          result = run(transaction)
        },
        committed: () => resolve(result),
        failed: reject,
      })
      this.wake()
    })
  }

  /** Sees to it that a transaction takes place in this turn of the loop, if anybody wants one. */
  wake(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(this.#run)
  }

  /** Names the database in messages. */
  get label(): string {
    return this.#database.label
  }

  /** Why nothing can be done any more. */
  get broken(): TransportError | undefined {
    return this.#broken
  }

  /** Why nothing is taken in now; tried again now and then. */
  get fault(): TransportError | undefined {
    return this.#fault
  }

  /** Tries nothing by itself any more. */
  close(): void {
    clearTimeout(this.#probing)
  }

  /** From now on everything fails with `error`. */
  break(error: TransportError): void {
    this.#broken = error
    this.#failAll(error)
    this.#onStatus(false, error)
  }

  /** Resolves when all work that was asked for is done. */
  async drained(): Promise<void> {
    while (this.#queue.length > 0) await new Promise<void>((resolve) => this.#idle.push(resolve))
  }

  readonly #run = (): void => {
    this.#scheduled = false
    if (this.#isWanted() && this.#tryBegin()) this.#transact()
    if (this.#queue.length === 0) for (const resolve of this.#idle.splice(0)) resolve()
  }

  #isWanted(): boolean {
    if (this.#queue.length > 0) return true
    if (this.#broken !== undefined) return false
    try {
      return this.#participants.some((each) => each.wants())
    } catch (error) {
      this.#cannotBegin(error)
      return false
    }
  }

  #tryBegin(): boolean {
    try {
      // The application that shares its connection may be inside a transaction of its own.
      if (this.#database.inTransaction) {
        this.#retryLater()
        return false
      }
      this.#database.waitForDisk(this.#queue.some((work) => work.durable))
      this.#database.withoutWaiting(this.#begin)
    } catch (error) {
      this.#cannotBegin(error)
      return false
    }
    if (this.#busySince > 0) {
      this.#busySince = 0
      if (this.#fault === undefined) this.#onStatus(true)
    }
    return true
  }

  /** No transaction can begin. */
  #cannotBegin(error: unknown): void {
    if (isBusy(error)) this.#retryLater()
    else this.#failAndProbe(faultOf(error, this.#database.label))
  }

  /** Somebody else has the lock: tries again soon, and lets go of what has waited too long. */
  #retryLater(): void {
    const now = performance.now()
    if (this.#busySince === 0) this.#busySince = now
    const blocked = now - this.#busySince
    const fault = new TransportError(
      "unavailable",
      `${this.#database.label}: another program has held the lock for ${Math.round(blocked)} ms: end it if it does not let go`,
    )
    const late = this.#queue.filter((work) => now - work.since >= LOCK_TIMEOUT_MS)
    this.#queue = this.#queue.filter((work) => now - work.since < LOCK_TIMEOUT_MS)
    for (const work of late) work.failed(fault)
    if (blocked >= LOCK_TIMEOUT_MS) {
      for (const each of this.#participants) each.failed(fault)
      this.#onStatus(false, fault)
    }
    this.#scheduled = true
    setTimeout(this.#run, blocked < LOCK_TIMEOUT_MS ? shortPause() : longPause())
  }

  #transact(): void {
    const until = performance.now() + SLICE_MS
    let done = 0
    let joining: Participant | undefined
    let transaction: Transaction
    try {
      transaction = new Transaction(this.#counter, this.#jobsWatched)
      while (done < this.#queue.length && (done === 0 || performance.now() < until)) {
        this.#queue[done]?.run(transaction)
        done++
      }
      for (const each of this.#participants) {
        joining = each
        each.join(transaction)
      }
      transaction.saveCounter()
    } catch (error) {
      this.#undo(error, joining ?? this.#queue[done], joining !== undefined)
      return
    }
    try {
      this.#commit.run()
    } catch (error) {
      this.#undo(error)
      return
    }
    this.#participantFailures = 0
    for (const work of this.#queue.splice(0, done)) work.committed()
    this.#notifyCommitted(transaction)
    if (this.#queue.length > 0) this.wake()
  }

  /** What is committed stays so, whatever becomes of those who hear of it. */
  #notifyCommitted(transaction: Transaction): void {
    for (const each of this.#participants) {
      try {
        each.committed(transaction)
      } catch (error) {
        each.failed(faultOf(error, this.#database.label))
      }
    }
  }

  /** Takes everything back. `culprit` is what the error came from: work, a participant, or the commit itself. */
  #undo(error: unknown, culprit?: Work | Participant, joined = false): void {
    this.#rollBack()
    if (isBusy(error)) {
      this.#retryLater()
      return
    }
    const fault = faultOf(error, this.#database.label, culprit === undefined && !isFull(error) ? "unknown" : "none")
    // A participant cannot be taken out: what fails for its sake again and again must end.
    if (joined) this.#participantFailures++
    if (culprit === undefined || isDatabaseWide(error) || this.#participantFailures > MAX_PARTICIPANT_FAILURES) {
      this.#participantFailures = 0
      this.#failAndProbe(fault)
    } else {
      this.#queue = this.#queue.filter((work) => work !== culprit)
      culprit.failed(fault)
    }
    this.wake()
  }

  #rollBack(): void {
    try {
      // After some errors SQLite has done so already.
      if (this.#database.inTransaction) this.#rollback.run()
    } catch {
      // Still inside: the next attempt to begin finds that, and waits.
    }
    for (const each of this.#participants) each.rolledBack()
  }

  /** Nothing could be done, and it may be the disk. */
  #failAndProbe(fault: TransportError): void {
    this.#failAll(fault)
    if (!fault.retryable || this.#broken !== undefined) return
    const first = this.#fault === undefined
    this.#fault = fault
    if (!first) return
    if (performance.now() - this.#healthySince > HEALTHY_MS) this.#probeMs = PROBE_MS
    this.#onStatus(false, fault)
    this.#probeLater()
  }

  #probeLater(): void {
    clearTimeout(this.#probing)
    this.#probing = setTimeout(() => {
      // What writes nothing would succeed.
      this.do((transaction) => transaction.next()).then(
        () => {
          this.#fault = undefined
          this.#healthySince = performance.now()
          if (this.#broken === undefined && this.#busySince === 0) this.#onStatus(true)
        },
        () => {
          if (this.#broken === undefined) this.#probeLater()
        },
      )
    }, this.#probeMs)
    this.#probing.unref()
    this.#probeMs = Math.min(this.#probeMs * 2, MAX_PROBE_MS)
  }

  #failAll(error: TransportError): void {
    for (const work of this.#queue.splice(0)) work.failed(error)
    for (const each of this.#participants) each.failed(error)
  }
}
