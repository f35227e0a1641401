/**
 * Takes tasks: chooses the first ready tasks of the queues, and gives them to one delivery each, for the length of a
 * lease and under a new fence.
 */
import type { Delivery, TakeRequest } from "../../../runtime/transport/driver.ts"
import type { MachineClock } from "../clock.ts"
import { bytesOrNull, type Database, int, type Row } from "../database/database.ts"
import { fenceText, levelAt, orderAt, readToken, tokenText } from "../jobs/id.ts"
import type { QueueNames } from "../jobs/queue-names.ts"
import type { Transaction } from "../writing/transaction.ts"

/** Most tasks that one statement makes ready. */
const PROMOTE_BATCH = 500

/** How long one transaction may go on making tasks ready, in milliseconds. */
const PROMOTE_MS = 4

const NOTHING = new Uint8Array(0)

export class Taker {
  readonly #names: QueueNames
  readonly #lease: number
  readonly #clock: MachineClock
  readonly #chooser: Chooser
  readonly #statements

  constructor(database: Database, names: QueueNames, lease: number, clock: MachineClock) {
    this.#names = names
    this.#chooser = new Chooser(database, names)
    this.#lease = lease
    this.#clock = clock
    const prepare = (sql: string) => database.prepare(sql)
    this.#statements = {
      isReady: prepare("SELECT 1 FROM callboard_job INDEXED BY callboard_job_ready WHERE queue = ? AND at = 0 LIMIT 1"),
      nextAt: prepare("SELECT at FROM callboard_job INDEXED BY callboard_job_later WHERE at > 0 ORDER BY at LIMIT 1"),
      nextDue: prepare(
        `SELECT at FROM callboard_job INDEXED BY callboard_job_later
         WHERE at > 0 AND fence IS NULL ORDER BY at LIMIT 1`,
      ),
      nextEnd: prepare(
        `SELECT at FROM callboard_job INDEXED BY callboard_job_later
         WHERE at > 0 AND fence IS NOT NULL ORDER BY at LIMIT 1`,
      ),
      promote: prepare(
        `UPDATE callboard_job SET at = 0 WHERE seq IN (
           SELECT seq FROM callboard_job INDEXED BY callboard_job_later WHERE at > 0 AND at <= ?1 AND (fence IS NULL OR at <= ?2) ORDER BY at LIMIT ?3
         ) RETURNING queue`,
      ),
      take: prepare(
        `UPDATE callboard_job INDEXED BY callboard_job_ready SET at = ?, fence = ?, deliveries = deliveries + 1
         WHERE queue = ? AND at = 0 AND place <= ?
         RETURNING seq, place, deliveries,
           (SELECT frame FROM callboard_load WHERE callboard_load.seq = callboard_job.seq) AS frame`,
      ),
    }
  }

  /** Whether one of these queues has a ready task. Reads only. */
  hasReady(queues: ReadonlyArray<string>): boolean {
    return queues.some((name) => {
      const queue = this.#names.find(name)
      return queue !== undefined && this.isReady(queue)
    })
  }

  isReady(queue: number): boolean {
    return this.#statements.isReady.get(queue) !== undefined
  }

  /**
   * When the next task becomes ready, because it is due or because its lease ends; `Infinity` if none does. Reads only.
   */
  nextAt(): number {
    const { nextAt, nextDue, nextEnd } = this.#statements
    const { now, ended } = this.#clock.read()
    if (ended === now) return timeIn(nextAt.get())
    return Math.min(timeIn(nextDue.get()), timeIn(nextEnd.get()) + now - ended)
  }

  /** Makes tasks ready that are due or whose lease has ended. */
  promote(transaction: Transaction): void {
    if (this.nextAt() > transaction.now) return
    const until = performance.now() + PROMOTE_MS
    for (;;) {
      const rows = this.#statements.promote.all(transaction.now, transaction.ended, PROMOTE_BATCH)
      for (const row of rows) transaction.noteReady(int(row, "queue"), 0)
      if (rows.length < PROMOTE_BATCH || performance.now() > until) return
    }
  }

  take(transaction: Transaction, request: TakeRequest): ReadonlyArray<Delivery> {
    const taken: Array<Delivery> = []
    for (const { queue, name, place } of this.#chooser.choose(request)) {
      taken.push(...this.#takeUpTo(transaction, queue, name, place))
    }
    return taken
  }

  #takeUpTo(transaction: Transaction, queue: number, name: string, last: number): ReadonlyArray<Delivery> {
    const number = transaction.next()
    const fence = fenceText(number)
    const until = transaction.now + this.#lease
    const rows = this.#statements.take.all(until, number, queue, last)
    if (until < transaction.nextReadyAt) transaction.nextReadyAt = until
    const taken = rows.map((row): Delivery => {
      const place = int(row, "place")
      const deliveries = int(row, "deliveries")
      return {
        token: tokenText(int(row, "seq"), fence),
        fence,
        queue: name,
        level: levelAt(place),
        sequence: orderAt(place),
        first: deliveries === 1,
        deliveries,
        content: bytesOrNull(row, "frame") ?? NOTHING,
      }
    })
    return taken.sort((a, b) => b.level - a.level || a.sequence - b.sequence)
  }
}

const timeIn = (row: Row | undefined): number => (row === undefined ? Number.POSITIVE_INFINITY : int(row, "at"))

// ── choosing ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Most bytes of tasks in one `take`: a transaction must not copy hundreds of megabytes. The first task is taken
 * whatever its size.
 */
const MAX_BYTES = 8 * 1024 * 1024

/** The ready tasks of a queue up to a place. */
interface Chosen {
  readonly queue: number
  readonly name: string
  readonly place: number
}

interface Candidate extends Chosen {
  readonly bytes: number
}

/**
 * Chooses the tasks for one `take`, always from the front of a queue, so that the last place says which tasks are
 * meant. Reads only.
 */
class Chooser {
  readonly #names: QueueNames
  readonly #first
  /** With `rotate`: the queue of the task that was chosen last. */
  #served = ""

  constructor(database: Database, names: QueueNames) {
    this.#names = names
    this.#first = database.prepare(
      `SELECT place, bytes FROM callboard_job INDEXED BY callboard_job_ready
       WHERE queue = ? AND at = 0 ORDER BY place LIMIT ?`,
    )
  }

  /** What to take of each queue, in the order of the request. */
  choose(request: TakeRequest): ReadonlyArray<Chosen> {
    return request.rotate ? this.#roundRobin(request) : this.#inQueueOrder(request)
  }

  #inQueueOrder({ queues, max }: TakeRequest): ReadonlyArray<Chosen> {
    const chosen: Array<Chosen> = []
    const budget = new Budget(max)
    for (const name of queues) {
      const queue = this.#names.find(name)
      const last = queue === undefined ? undefined : this.#ofQueue(queue, name, budget)
      if (last !== undefined) chosen.push(last)
      if (budget.left <= 0) break
    }
    return chosen
  }

  /** The first tasks that are within the byte limit together. */
  #ofQueue(queue: number, name: string, budget: Budget): Chosen | undefined {
    let place: number | undefined
    for (const row of this.#first.all(queue, budget.left)) {
      if (!budget.take(int(row, "bytes"))) break
      place = int(row, "place")
    }
    return place === undefined ? undefined : { queue, name, place }
  }

  /** Chooses one task of each queue in turn, beginning after the queue that was served last. */
  #roundRobin({ queues, max }: TakeRequest): ReadonlyArray<Chosen> {
    const budget = new Budget(max)
    const start = queues.indexOf(this.#served) + 1
    const candidates = [...queues.slice(start), ...queues.slice(0, start)].map((name) => {
      const queue = this.#names.find(name)
      return queue === undefined ? [] : this.#candidates(queue, name, max)
    })
    const last = new Map<string, Chosen>()
    for (let round = 0; budget.left > 0 && candidates.some((each) => each.length > round); round++) {
      for (const each of candidates) {
        const candidate = each[round]
        if (candidate === undefined || !budget.take(candidate.bytes)) continue
        last.set(candidate.name, candidate)
        this.#served = candidate.name
      }
    }
    return queues.flatMap((name) => last.get(name) ?? [])
  }

  #candidates(queue: number, name: string, limit: number): ReadonlyArray<Candidate> {
    return this.#first
      .all(queue, limit)
      .map((row) => ({ queue, name, place: int(row, "place"), bytes: int(row, "bytes") }))
  }
}

/** How many more tasks and bytes a `take` may choose. The first task may have any size. */
class Budget {
  left: number
  #bytes = 0

  constructor(max: number) {
    this.left = max
  }

  take(bytes: number): boolean {
    if (this.left <= 0 || (this.#bytes > 0 && this.#bytes + bytes > MAX_BYTES)) {
      this.left = 0
      return false
    }
    this.#bytes += bytes
    this.left--
    return true
  }
}

/** Extends leases. The token is all it needs, so that any thread or process that opened the same file can do it. */
export class Leases {
  readonly #lease: number
  readonly #extend

  constructor(database: Database, lease: number) {
    this.#lease = lease
    this.#extend = database.prepare("UPDATE callboard_job SET at = ? WHERE seq = ? AND fence = ? AND at IS NOT NULL")
  }

  /**
   * Gives the delivery a full lease from now; `false` if its task is gone or was taken by another delivery. A lease
   * that ended begins again as long as no other delivery has taken the task.
   */
  extend({ now }: Transaction, token: string): boolean {
    const read = readToken(token)
    return read !== undefined && this.#extend.run(now + this.#lease, read.seq, read.fence).changes > 0
  }
}
