/** Hands tasks over: takes what is ready off the front of its queue for the length of a lease, under a new fence. */
import { decodeEnvelope } from "../../runtime/protocol/envelope.ts"
import type { Delivery, PullRequest } from "../../runtime/transport.ts"
import type { Database } from "./database.ts"
import type { QueueNames } from "./name.ts"
import { fenceText, levelAt, orderAt, tokenText } from "./number.ts"
import { bytesOrNull, int, intOrNull } from "./row.ts"
import type { Transaction } from "./transaction.ts"

/** A task that was handed over; what `deliveryOf` makes a delivery of, after the commit. */
export interface Taken {
  readonly seq: number
  readonly queue: string
  readonly place: number
  readonly fence: number
  readonly fresh: boolean
  readonly deliveries: number
  readonly envelope: Uint8Array | null
}

/** Most bytes of tasks in one pull, apart from the first task: a transaction must not copy hundreds of megabytes. */
const MAX_BYTES = 8 * 1024 * 1024

/** Tasks whose time has come, moved at once. */
const PROMOTE = 500

/** How long one transaction may go on moving them, in milliseconds. */
const PROMOTE_MS = 4

const NOTHING = new Uint8Array(0)

interface Candidate {
  readonly queue: number
  readonly name: string
  readonly place: number
  readonly bytes: number
}

export class Taker {
  readonly #names: QueueNames
  readonly #lease: number
  readonly #statements
  /** Queue that was served last, where queues take turns. */
  #served = ""

  constructor(database: Database, names: QueueNames, lease: number) {
    this.#names = names
    this.#lease = lease
    const prepare = (sql: string) => database.prepare(sql)
    this.#statements = {
      isReady: prepare("SELECT 1 FROM callboard_job INDEXED BY callboard_job_ready WHERE queue = ? AND at = 0 LIMIT 1"),
      nextAt: prepare("SELECT at FROM callboard_job INDEXED BY callboard_job_later WHERE at > 0 ORDER BY at LIMIT 1"),
      promote: prepare(
        `UPDATE callboard_job SET at = 0 WHERE seq IN (
           SELECT seq FROM callboard_job INDEXED BY callboard_job_later WHERE at > 0 AND at <= ? ORDER BY at LIMIT ?
         ) RETURNING queue`,
      ),
      candidates: prepare(
        `SELECT place, bytes FROM callboard_job INDEXED BY callboard_job_ready
         WHERE queue = ? AND at = 0 ORDER BY place LIMIT ?`,
      ),
      take: prepare(
        `UPDATE callboard_job INDEXED BY callboard_job_ready SET at = ?, fence = ?, deliveries = deliveries + 1
         WHERE queue = ? AND at = 0 AND place <= ?
         RETURNING seq, of, nth, place, deliveries, touched, state,
           (SELECT envelope FROM callboard_load WHERE callboard_load.seq = callboard_job.seq) AS envelope`,
      ),
      fence: prepare("UPDATE callboard_job SET fence = ? WHERE seq = ?"),
    }
  }

  /** Whether a transaction would find something. Reads only. */
  hasReady(queues: ReadonlyArray<string>): boolean {
    return queues.some((name) => {
      const queue = this.#names.find(name)
      return queue !== undefined && this.isReady(queue)
    })
  }

  isReady(queue: number): boolean {
    return this.#statements.isReady.get(queue) !== undefined
  }

  /** When the next task becomes ready, because it is due or its lease ends. Reads only. */
  nextAt(): number {
    const row = this.#statements.nextAt.get()
    return row === undefined ? Number.POSITIVE_INFINITY : int(row, "at")
  }

  /** Makes ready what is due and what has lapsed. */
  promote(transaction: Transaction): void {
    if (this.nextAt() > transaction.now) return
    const until = performance.now() + PROMOTE_MS
    for (;;) {
      const rows = this.#statements.promote.all(transaction.now, PROMOTE)
      for (const row of rows) transaction.put(int(row, "queue"), 0)
      if (rows.length < PROMOTE || performance.now() > until) return
    }
  }

  take(transaction: Transaction, request: PullRequest): ReadonlyArray<Taken> {
    const chosen = request.rotate ? this.#inTurns(request) : this.#inOrder(request)
    return chosen.flatMap(({ queue, name, place }) => this.#takeUpTo(transaction, queue, name, place))
  }

  /** Per queue, in the order asked for, up to which place to take. */
  #inOrder({ queues, max }: PullRequest): ReadonlyArray<Candidate> {
    const chosen: Array<Candidate> = []
    const budget = new Budget(max)
    for (const name of queues) {
      let last: Candidate | undefined
      for (const candidate of this.#candidates(name, budget.left)) {
        if (!budget.take(candidate.bytes)) break
        last = candidate
      }
      if (last !== undefined) chosen.push(last)
      if (budget.left <= 0) break
    }
    return chosen
  }

  /** The same with one task of each queue in turn, from the queue after the one that was served last. */
  #inTurns({ queues, max }: PullRequest): ReadonlyArray<Candidate> {
    const budget = new Budget(max)
    const start = queues.indexOf(this.#served) + 1
    const turns = [...queues.slice(start), ...queues.slice(0, start)].map((name) => this.#candidates(name, max))
    const last = new Map<string, Candidate>()
    for (let round = 0; budget.left > 0 && turns.some((each) => each.length > round); round++) {
      for (const each of turns) {
        const candidate = each[round]
        if (candidate === undefined || !budget.take(candidate.bytes)) continue
        last.set(candidate.name, candidate)
        this.#served = candidate.name
      }
    }
    return queues.flatMap((name) => last.get(name) ?? [])
  }

  #candidates(name: string, limit: number): ReadonlyArray<Candidate> {
    const queue = this.#names.find(name)
    if (queue === undefined) return []
    return this.#statements.candidates.all(queue, limit).map((row) => ({
      queue,
      name,
      place: int(row, "place"),
      bytes: int(row, "bytes"),
    }))
  }

  #takeUpTo(transaction: Transaction, queue: number, name: string, place: number): ReadonlyArray<Taken> {
    const { take, fence: setFence } = this.#statements
    const fence = transaction.next()
    const until = transaction.now + this.#lease
    const rows = take.all(until, fence, queue, place)
    if (until < transaction.later) transaction.later = until
    const taken = rows.map((row) => ({
      seq: int(row, "seq"),
      older: intOrNull(row, "of") !== null,
      nth: int(row, "nth"),
      queue: name,
      place: int(row, "place"),
      fence,
      fresh:
        int(row, "deliveries") === 1 &&
        int(row, "touched") === 0 &&
        intOrNull(row, "state") === null &&
        intOrNull(row, "of") === null,
      deliveries: int(row, "deliveries"),
      envelope: bytesOrNull(row, "envelope"),
    }))
    // Two postings of one job in one pull: the later one must have the higher fence.
    if (taken.some((each) => each.older)) {
      taken.sort((a, b) => a.nth - b.nth)
      for (const each of taken) setFence.run((each.fence = transaction.next()), each.seq)
    }
    return taken.sort((a, b) => a.place - b.place)
  }
}

/** How many tasks, and bytes of them, a pull may still take. The first one is free. */
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

export const deliveryOf = (taken: Taken): Delivery => ({
  token: tokenText(taken.seq, taken.fence),
  fence: fenceText(taken.fence),
  queue: taken.queue,
  level: levelAt(taken.place),
  sequence: orderAt(taken.place),
  fresh: taken.fresh,
  deliveries: taken.deliveries,
  message: decodeEnvelope(taken.envelope ?? NOTHING),
})
