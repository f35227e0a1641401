/**
 * Group commit. Calls that come in one turn of the event loop, or while another process holds the lock, share the next
 * transaction; a single call on an idle file costs one commit and waits for nothing.
 *
 * Work that throws fails alone: the transaction is repeated without it. The lock is tried again and again and never
 * waited for inside SQLite, so that the event loop runs on. While the disk refuses writes, the file counts as
 * unavailable; a small write is tried now and then, and ends that state.
 */
import { TransportError } from "../../../runtime/transport/mod.ts"
import type { MachineClock } from "../clock.ts"
import type { Database } from "../database/database.ts"
import { faultOf, heldBy, isBusy, isDatabaseWide, isFull } from "../database/fault.ts"
import { Counter, Transaction } from "./transaction.ts"

/** The part of one call in a transaction. It may run more than once; only the last run counts. */
interface Work {
  readonly since: number
  /** Whether its commit must be on the disk before the call is answered. */
  readonly durable: boolean
  run(transaction: Transaction): void
  committed(): void
  failed(error: TransportError): void
}

/** Takes part in every transaction. */
export interface Participant {
  /** Whether this participant needs a transaction although no call does. */
  wants(): boolean
  /** Called after the work of all calls, before the commit. */
  join(transaction: Transaction): void
  committed(transaction: Transaction): void
  /** The transaction was rolled back: what `join` did is void. */
  rolledBack(): void
  /** No transaction is possible; calls that wait with this participant are to fail. */
  failed(error: TransportError): void
}

/** How long one transaction may go on taking work, in milliseconds; the rest waits for the next one. */
const SLICE_MS = 4

/** How long work waits for the lock before it fails as `unavailable`. */
const LOCK_TIMEOUT_MS = 1_500

/** Transactions in a row that may fail because of a participant, before all calls fail with its error. */
const MAX_PARTICIPANT_FAILURES = 3

/** How long after a refused write a small write is tried: at first, and at most. The delay doubles each time. */
const PROBE_MS = 250
const MAX_PROBE_MS = 5_000

/**
 * When the disk fails again within this time, the delay is not reset: a disk that is nearly full accepts some writes.
 */
const HEALTHY_MS = 30_000

/** Pauses between two attempts at the lock, in milliseconds: other processes hold it for about as long. */
const shortPause = (): number => 0.1 + Math.random() * 1.2
const longPause = (): number => 20 + Math.random() * 30

export class Writer {
  readonly #database: Database
  readonly #counter: Counter
  readonly #jobsWatched: () => boolean
  readonly #clock: MachineClock
  readonly #participants: ReadonlyArray<Participant>
  readonly #onStatus: (connected: boolean, why?: TransportError) => void
  readonly #begin
  readonly #commit
  readonly #rollback

  #queue: Array<Work> = []
  #scheduled = false
  /** Since when other processes hold the lock; 0 if they do not. */
  #busySince = 0
  #broken: TransportError | undefined
  /** The error of the last refused write, until a write succeeds. */
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
      readonly clock: MachineClock
      readonly onStatus: (connected: boolean, why?: TransportError) => void
    },
  ) {
    this.#database = database
    this.#counter = new Counter(database)
    this.#participants = options.participants
    this.#jobsWatched = options.jobsWatched
    this.#clock = options.clock
    this.#onStatus = options.onStatus
    this.#begin = database.prepare("BEGIN IMMEDIATE")
    this.#commit = database.prepare("COMMIT")
    this.#rollback = database.prepare("ROLLBACK")
  }

  /** Runs `run` inside the next transaction; resolves with its result once that is as durable as declared. */
  do<T>(run: (transaction: Transaction) => T): Promise<T> {
    return this.#add(run, true)
  }

  /**
   * Like {@link do}, without waiting for the disk: for leases, the list of listeners and news, which mean nothing any
   * more after a power loss. Committed in order with all other work.
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

  /** Has a transaction run in this turn of the event loop, if a call or a participant needs one. */
  wake(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(this.#run)
  }

  /** Names the database in messages. */
  get label(): string {
    return this.#database.label
  }

  /** The error of every call, once the file is lost. */
  get broken(): TransportError | undefined {
    return this.#broken
  }

  /** Why writes are refused now; a small write is tried now and then. */
  get fault(): TransportError | undefined {
    return this.#fault
  }

  /** Stops trying small writes. */
  close(): void {
    clearTimeout(this.#probing)
  }

  /** Fails all calls with `error`, now and later. */
  break(error: TransportError): void {
    this.#broken = error
    this.#failAll(error)
    this.#onStatus(false, error)
  }

  /** Resolves when all work that was asked for has ended. */
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
      // The application, which shares its connection, may be inside a transaction of its own.
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

  /** To be called when no transaction can begin. */
  #cannotBegin(error: unknown): void {
    if (isBusy(error)) this.#retryLater()
    else this.#failAndProbe(faultOf(error, this.#database.label))
  }

  /** Another connection has the lock: tries again soon, and fails the work that has waited too long. */
  #retryLater(): void {
    const now = performance.now()
    if (this.#busySince === 0) this.#busySince = now
    const blocked = now - this.#busySince
    const late = this.#queue.filter((work) => now - work.since >= LOCK_TIMEOUT_MS)
    if (late.length > 0 || blocked >= LOCK_TIMEOUT_MS) {
      const { label, path } = this.#database
      const why = heldBy(path, `for ${Math.round(blocked)} ms`)
      const fault = new TransportError("unavailable", `${label}: ${why}`)
      this.#queue = this.#queue.filter((work) => now - work.since < LOCK_TIMEOUT_MS)
      for (const work of late) work.failed(fault)
      if (blocked >= LOCK_TIMEOUT_MS) {
        for (const each of this.#participants) each.failed(fault)
        this.#onStatus(false, fault)
      }
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
      transaction = new Transaction(this.#counter, this.#jobsWatched, this.#clock)
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

  /** Tells the participants of a commit. The commit stands, even if one of them throws. */
  #notifyCommitted(transaction: Transaction): void {
    for (const each of this.#participants) {
      try {
        each.committed(transaction)
      } catch (error) {
        each.failed(faultOf(error, this.#database.label))
      }
    }
  }

  /**
   * Rolls the transaction back. `culprit` is what threw the error: work, a participant, or, if absent, the commit
   * itself.
   */
  #undo(error: unknown, culprit?: Work | Participant, joined = false): void {
    this.#rollBack()
    if (isBusy(error)) {
      this.#retryLater()
      return
    }
    const fault = faultOf(error, this.#database.label, culprit === undefined && !isFull(error) ? "unknown" : "none")
    // A participant cannot be left out of a transaction, so that its failures in a row are counted.
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
      // After some errors SQLite has rolled back by itself.
      if (this.#database.inTransaction) this.#rollback.run()
    } catch {
      // The transaction is still open: the next attempt to begin finds that, and tries again later.
    }
    for (const each of this.#participants) each.rolledBack()
  }

  /** No work could be done. If that may pass (a full disk, for instance), small writes are tried until one succeeds. */
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
      // The number makes it a write: a transaction that changes nothing would succeed on a full disk.
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
