/** Hands tasks over: takes what is ready off the front of its queue for the length of a lease, under a new fence. */
import { decodeEnvelope } from "../../../runtime/protocol/envelope.ts"
import type { Delivery, PullRequest } from "../../../runtime/transport/mod.ts"
import type { Database } from "../database/database.ts"
import { bytesOrNull, int } from "../database/row.ts"
import type { QueueNames } from "../jobs/name.ts"
import { fenceText, levelAt, orderAt, tokenText } from "../jobs/number.ts"
import type { Transaction } from "../writing/transaction.ts"
import { Chooser } from "./choose.ts"

/** A task that was handed over; what `deliveryOf` makes a delivery of, after the commit. */
export interface Taken {
  readonly seq: number
  readonly queue: string
  readonly place: number
  /** As text. */
  readonly fence: string
  readonly fresh: boolean
  readonly deliveries: number
  readonly envelope: Uint8Array | null
}

/** Tasks whose time has come, moved at once. */
const PROMOTE = 500

/** How long one transaction may go on moving them, in milliseconds. */
const PROMOTE_MS = 4

const NOTHING = new Uint8Array(0)

export class Taker {
  readonly #names: QueueNames
  readonly #lease: number
  readonly #chooser: Chooser
  readonly #statements

  constructor(database: Database, names: QueueNames, lease: number) {
    this.#names = names
    this.#chooser = new Chooser(database, names)
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
      take: prepare(
        `UPDATE callboard_job INDEXED BY callboard_job_ready SET at = ?, fence = ?, deliveries = deliveries + 1
         WHERE queue = ? AND at = 0 AND place <= ?
         RETURNING seq, place, deliveries, of,
           deliveries = 1 AND touched = 0 AND state IS NULL AND of IS NULL AS fresh,
           (SELECT envelope FROM callboard_load WHERE callboard_load.seq = callboard_job.seq) AS envelope`,
      ),
      nth: prepare("SELECT nth FROM callboard_job WHERE seq = ?"),
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
    const taken: Array<Taken> = []
    for (const { queue, name, place } of this.#chooser.choose(request)) {
      taken.push(...this.#takeUpTo(transaction, queue, name, place))
    }
    return taken
  }

  #takeUpTo(transaction: Transaction, queue: number, name: string, place: number): ReadonlyArray<Taken> {
    const fence = transaction.next()
    const shown = fenceText(fence)
    const until = transaction.now + this.#lease
    const rows = this.#statements.take.all(until, fence, queue, place)
    if (until < transaction.later) transaction.later = until
    const taken = rows.map((row) => ({
      seq: int(row, "seq"),
      queue: name,
      place: int(row, "place"),
      fence: shown,
      fresh: int(row, "fresh") === 1,
      deliveries: int(row, "deliveries"),
      envelope: bytesOrNull(row, "envelope"),
    }))
    if (rows.some((row) => row["of"] !== null)) this.#fenceApart(transaction, taken)
    return taken.sort((a, b) => a.place - b.place)
  }

  /** Two postings of one job in one pull: the later one must have the higher fence. */
  #fenceApart(transaction: Transaction, taken: ReadonlyArray<{ readonly seq: number; fence: string }>): void {
    const nthOf = new Map(taken.map((each) => [each, int(this.#statements.nth.get(each.seq) ?? {}, "nth")]))
    for (const each of taken.toSorted((a, b) => (nthOf.get(a) ?? 0) - (nthOf.get(b) ?? 0))) {
      const fence = transaction.next()
      this.#statements.fence.run(fence, each.seq)
      each.fence = fenceText(fence)
    }
  }
}

export const deliveryOf = (taken: Taken): Delivery => ({
  token: tokenText(taken.seq, taken.fence),
  fence: taken.fence,
  queue: taken.queue,
  level: levelAt(taken.place),
  sequence: orderAt(taken.place),
  fresh: taken.fresh,
  deliveries: taken.deliveries,
  message: decodeEnvelope(taken.envelope ?? NOTHING),
})
