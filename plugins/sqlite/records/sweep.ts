/** Removes records that were kept long enough, in slices. The job of a task that is in a queue stays. */
import type { Database } from "../database/database.ts"
import { int } from "../database/row.ts"
import type { JobTable } from "../jobs/job-table.ts"
import type { Transaction } from "../writing/transaction.ts"

/** Jobs in one slice: about two milliseconds. */
const SLICE = 200

/** When a record whose job has a task in a queue is looked at again. */
const AGAIN_MS = 3_600_000

export class Sweeper {
  readonly #jobs: JobTable
  readonly #statements

  constructor(database: Database, jobs: JobTable) {
    this.#jobs = jobs
    const prepare = (sql: string) => database.prepare(sql)
    this.#statements = {
      due: prepare(
        "SELECT 1 FROM callboard_job INDEXED BY callboard_job_until WHERE until IS NOT NULL AND until <= ? LIMIT 1",
      ),
      over: prepare(
        `SELECT seq FROM callboard_job INDEXED BY callboard_job_until
         WHERE until IS NOT NULL AND until <= ? ORDER BY until LIMIT ${SLICE}`,
      ),
      postpone: prepare("UPDATE callboard_job SET until = ? WHERE seq = ?"),
    }
  }

  /** Whether there is anything to do. Reads only. */
  isDue(now: number): boolean {
    return this.#statements.due.get(now) !== undefined
  }

  /** One slice; `true` if there may be more. */
  sweep({ now }: Transaction): boolean {
    const rows = this.#statements.over.all(now)
    for (const each of rows) {
      const row = this.#jobs.bySeq(int(each, "seq"))
      if (row === undefined) continue
      if (this.#jobs.isOver(row, now)) this.#jobs.remove(row.seq)
      else this.#statements.postpone.run(now + AGAIN_MS, row.seq)
    }
    return rows.length === SLICE
  }
}
