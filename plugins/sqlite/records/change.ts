/** Changes from outside a delivery, and finding: compare-and-set by revision, task and follow-ups in one transaction. */
import type { Change, Changed, Found, JobRecord } from "../../../runtime/transport/mod.ts"
import type { Database } from "../database/database.ts"
import { type PostingColumns, type RecordColumns, recordColumns, recordLinks } from "../jobs/column.ts"
import { idToColumn } from "../jobs/id.ts"
import type { JobRow, JobTable } from "../jobs/job-table.ts"
import type { QueueNames } from "../jobs/name.ts"
import type { Publisher } from "../queue/publish.ts"
import type { Transaction } from "../writing/transaction.ts"
import { revisionOf, viewOf } from "./view.ts"

export interface PreparedChange {
  readonly expect: string
  readonly record: RecordColumns
  readonly withdraw: boolean
  readonly post: ReadonlyArray<PostingColumns>
}

export class Changer {
  readonly #database: Database
  readonly #jobs: JobTable
  readonly #names: QueueNames
  readonly #publisher: Publisher

  constructor(database: Database, jobs: JobTable, names: QueueNames, publisher: Publisher) {
    this.#database = database
    this.#jobs = jobs
    this.#names = names
    this.#publisher = publisher
  }

  find(id: string): Found | undefined {
    const column = idToColumn(id)
    return this.#database.snapshot(() => {
      const row = this.#jobs.byId(column)
      if (row === undefined) return undefined
      const record = this.#view(row, id) ?? this.#viewOlder(row, id)
      return record && { record, revision: revisionOf(row) }
    })
  }

  #view(row: JobRow, id: string): JobRecord | undefined {
    return viewOf(row, id, this.#names.nameOf(row.queue), this.#jobs.load(row.seq), Date.now())
  }

  /** A job whose last posting left nothing behind, while an earlier one is still out. */
  #viewOlder(row: JobRow, id: string): JobRecord | undefined {
    const older = row.at === null ? this.#jobs.olderOf(row) : undefined
    return older && this.#view(older, id)
  }

  /** What can fail, before the lock is taken. Fails with `invalid`, `unsupported` or `too-large`. */
  prepare({ id, expect, record, withdraw, post }: Change): PreparedChange {
    return {
      expect,
      record: recordColumns(record.id === id ? record : { ...record, id }, Date.now()),
      withdraw: withdraw === true,
      post: post?.map((posting) => this.#publisher.prepare(posting)) ?? [],
    }
  }

  change(transaction: Transaction, { expect, record, withdraw, post }: PreparedChange): Changed {
    const row = this.#jobs.current(record.id, transaction.now)
    if (revisionOf(row) !== expect) return { status: "conflict" }
    if (row === undefined) {
      // Nothing was published yet (a job that waits for others): its first posting is not a duplicate.
      this.#jobs.insertRecord(record, recordLinks(record.record), transaction.next(), transaction.next(), 0)
    } else {
      if (withdraw) this.#jobs.withdraw(row)
      this.#jobs.putRecord(withdraw ? { ...row, at: null } : row, record, transaction.next())
    }
    if (transaction.tells) transaction.records.push(record.record)
    for (const posting of post) this.#publisher.post(transaction, posting)
    return { status: "changed" }
  }
}
