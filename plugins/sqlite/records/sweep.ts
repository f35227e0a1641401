/** What goes away with time: records become tombstones, tombstones go. A task that waits never does. In slices. */
import { tombstoneOf } from "../../../runtime/protocol/record.ts"
import { TOMBSTONE_MS } from "../../../runtime/transport/mod.ts"
import type { Database } from "../database/database.ts"
import { recordColumns } from "../jobs/column.ts"
import { isGone, type JobRow, type JobTable } from "../jobs/job-table.ts"
import type { Transaction } from "../writing/transaction.ts"

/** Jobs in one slice: about two milliseconds. */
const SLICE = 200

export class Sweeper {
  readonly #jobs: JobTable
  readonly #statements

  constructor(database: Database, jobs: JobTable) {
    this.#jobs = jobs
    const prepare = (sql: string) => database.prepare(sql)
    this.#statements = {
      due: prepare(
        `SELECT 1 FROM callboard_job INDEXED BY callboard_job_over WHERE over IS NOT NULL AND over <= ? LIMIT 1`,
      ),
      over: prepare(
        `SELECT seq FROM callboard_job INDEXED BY callboard_job_over
         WHERE over IS NOT NULL AND over <= ? ORDER BY over LIMIT ${SLICE}`,
      ),
      postpone: prepare("UPDATE callboard_job SET over = ? WHERE seq = ?"),
      bury: prepare("UPDATE callboard_job SET over = ?, grave = 1, keeps = 0 WHERE seq = ?"),
      buryLoad: prepare("UPDATE callboard_load SET envelope = NULL, record = ? WHERE seq = ?"),
      unlink: prepare("DELETE FROM callboard_link WHERE seq = ?"),
    }
  }

  /** Whether there is anything to do. Reads only. */
  isDue(now: number): boolean {
    return this.#statements.due.get(now) !== undefined
  }

  /** One slice; `true` if there may be more. */
  sweep(transaction: Transaction): boolean {
    const { now } = transaction
    const rows = this.#statements.over.all(now)
    for (const { seq } of rows) {
      const row = typeof seq === "number" ? this.#jobs.bySeq(seq) : undefined
      if (row === undefined) continue
      if (isGone(row, now)) this.#jobs.remove(row.seq)
      // A delivery that is still out must find that the job is over.
      else if (row.at !== null) this.#statements.postpone.run(now + TOMBSTONE_MS, row.seq)
      else this.#bury(row)
    }
    return rows.length === SLICE
  }

  #bury(row: JobRow): void {
    const record = this.#jobs.record(row)
    if (record === undefined || row.over === null) return
    const end = row.over + TOMBSTONE_MS
    this.#statements.bury.run(end, row.seq)
    this.#statements.buryLoad.run(recordColumns(tombstoneOf(record), end).json, row.seq)
    this.#statements.unlink.run(row.seq)
  }
}
