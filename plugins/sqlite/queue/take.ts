/** Hands tasks over: takes what is ready off the front of its queue for the length of a lease, under a new fence. */
import type { TakeRequest, TaskDelivery } from "../../../runtime/transport/driver.ts"
import type { Database } from "../database/database.ts"
import { bytesOrNull, int } from "../database/row.ts"
import type { QueueNames } from "../jobs/queue-names.ts"
import { fenceText, levelAt, orderAt, tokenText } from "../jobs/token.ts"
import type { Transaction } from "../writing/transaction.ts"
import { Chooser } from "./choose.ts"

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
         RETURNING seq, place, deliveries,
           (SELECT frame FROM callboard_load WHERE callboard_load.seq = callboard_job.seq) AS frame`,
      ),
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

  take(transaction: Transaction, request: TakeRequest): ReadonlyArray<TaskDelivery> {
    const taken: Array<TaskDelivery> = []
    for (const { queue, name, place } of this.#chooser.choose(request)) {
      taken.push(...this.#takeUpTo(transaction, queue, name, place))
    }
    return taken
  }

  #takeUpTo(transaction: Transaction, queue: number, name: string, last: number): ReadonlyArray<TaskDelivery> {
    const number = transaction.next()
    const fence = fenceText(number)
    const until = transaction.now + this.#lease
    const rows = this.#statements.take.all(until, number, queue, last)
    if (until < transaction.later) transaction.later = until
    const taken = rows.map((row): TaskDelivery => {
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
