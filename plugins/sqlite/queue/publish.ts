/** Puts tasks into queues; a publish key is accepted once. */
import type { Posting } from "../../../runtime/transport/driver.ts"
import { type PostingColumns, postingColumns } from "../jobs/columns.ts"
import type { JobTable } from "../jobs/job-table.ts"
import type { QueueNames } from "../jobs/queue-names.ts"
import type { Transaction } from "../writing/transaction.ts"

export class TaskPublisher {
  readonly #jobs: JobTable
  readonly #names: QueueNames

  constructor(jobs: JobTable, names: QueueNames) {
    this.#jobs = jobs
    this.#names = names
  }

  /** Checks a posting before the write lock is taken. Fails with `invalid` or `too-large`. */
  prepare(posting: Posting): PostingColumns {
    return postingColumns(posting)
  }

  /** Whether a task with this publish key was accepted before. */
  knows({ id, key }: PostingColumns, now: number): boolean {
    const row = this.#jobs.current(id, now)
    return row !== undefined && this.#jobs.knows(row, key)
  }

  post(transaction: Transaction, columns: PostingColumns): "stored" | "duplicate" {
    const { posting, due } = columns
    const { now } = transaction
    const order = transaction.next()
    const at = due !== null && due > now ? due : 0
    if (!this.#jobs.insert(columns, order, at, now)) {
      const row = this.#jobs.current(columns.id, now)
      if (row === undefined) this.#jobs.insert(columns, order, at, now)
      else if (this.#jobs.knows(row, columns.key)) return "duplicate"
      else this.#jobs.add(row, columns, order, at, now)
    }
    transaction.noteReady(this.#names.idOf(posting.queue), at)
    if (transaction.jobsWatched) transaction.jobChanges.push({ id: posting.id })
    return "stored"
  }
}
