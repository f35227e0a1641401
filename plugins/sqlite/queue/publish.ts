/** Puts tasks into queues, each publish key once. */
import { recordOfPosting } from "../../../runtime/protocol/record.ts"
import type { Posting } from "../../../runtime/transport/mod.ts"
import { type PostingColumns, postingColumns } from "../jobs/column.ts"
import type { JobTable } from "../jobs/job-table.ts"
import type { QueueNames } from "../jobs/name.ts"
import type { Transaction } from "../writing/transaction.ts"

export class Publisher {
  readonly #jobs: JobTable
  readonly #names: QueueNames

  constructor(jobs: JobTable, names: QueueNames) {
    this.#jobs = jobs
    this.#names = names
  }

  /** What can fail, before the lock is taken. Fails with `unsupported`, `invalid` or `too-large`. */
  prepare(posting: Posting): PostingColumns {
    return postingColumns(posting, Date.now())
  }

  post(transaction: Transaction, columns: PostingColumns): "stored" | "duplicate" {
    const { posting, due } = columns
    const order = transaction.next()
    const at = due !== null && due > transaction.now ? due : 0
    let known = false
    if (!this.#jobs.insert(columns, order, at)) {
      const row = this.#jobs.current(columns.id, transaction.now)
      if (row === undefined) {
        this.#jobs.insert(columns, order, at)
      } else {
        if (this.#jobs.knows(row, columns.nth)) return "duplicate"
        this.#jobs.add(row, columns, order, at)
        known = row.rev !== null
      }
    }
    transaction.put(this.#names.idOf(posting.queue), at)
    if (transaction.tells && !known) {
      const derived = recordOfPosting(posting, transaction.now)
      if (derived._tag === "Success") transaction.records.push(derived.success)
    }
    return "stored"
  }
}
