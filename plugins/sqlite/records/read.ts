/** Reads jobs: the record and, if asked for, the newest task in a queue. */
import type { Known, QueuedTask } from "../../../runtime/transport/known.ts"
import type { FoundJob } from "../../../runtime/transport/optional.ts"
import { bytesOrNull, type Database, int, intOrNull, type Row } from "../database/database.ts"
import { idToColumn } from "../jobs/id.ts"
import type { JobTable } from "../jobs/job-table.ts"
import type { QueueNames } from "../jobs/queue-names.ts"

const NOTHING = new Uint8Array(0)

export class JobReader {
  readonly #database: Database
  readonly #ns: number
  readonly #jobs: JobTable
  readonly #names: QueueNames
  readonly #statements

  constructor(database: Database, ns: number, jobs: JobTable, names: QueueNames) {
    this.#database = database
    this.#ns = ns
    this.#jobs = jobs
    this.#names = names
    const task = "queue, at, fence, deliveries, due, expires, posted, frame"
    const job = `job.seq AS seq, rev, until, record, ${task} FROM callboard_job AS job JOIN callboard_load USING (seq)`
    this.#statements = {
      record: database.prepare(
        `SELECT job.seq AS seq, at, rev, until, record FROM callboard_job AS job JOIN callboard_load USING (seq)
         WHERE ns = ? AND id = ?`,
      ),
      byId: database.prepare(`SELECT ${job} WHERE ns = ? AND id = ?`),
      bySeq: database.prepare(`SELECT ${job} WHERE job.seq = ?`),
      // Of several further tasks of a job, the one that was published last has the highest number.
      further: database.prepare(
        `SELECT ${task} FROM callboard_job AS job JOIN callboard_load USING (seq) WHERE of = ? ORDER BY job.seq DESC LIMIT 1`,
      ),
    }
  }

  read(ids: ReadonlyArray<string>, what: "record" | "all"): ReadonlyArray<Known | undefined> {
    const now = Date.now()
    const columns = ids.map(idToColumn)
    if (what === "record") return columns.map((id) => this.#record(this.#statements.record.get(this.#ns, id), now))
    return this.#database.snapshot(() => columns.map((id) => this.#known(this.#statements.byId.get(this.#ns, id), now)))
  }

  /** The job in a row, as it is now. */
  bySeq(seq: number): FoundJob | undefined {
    return this.#database.snapshot(() => {
      const known = this.#known(this.#statements.bySeq.get(seq), Date.now())
      return known && { id: this.#jobs.idOf({ seq, of: null }), ...known }
    })
  }

  #record(row: Row | undefined, now: number): Known | undefined {
    if (row === undefined || this.#isOver(row, now)) return undefined
    const rev = intOrNull(row, "rev")
    return rev === null ? undefined : { revision: String(rev), record: bytesOrNull(row, "record") ?? NOTHING }
  }

  #known(row: Row | undefined, now: number): Known | undefined {
    if (row === undefined || this.#isOver(row, now)) return undefined
    const rev = intOrNull(row, "rev")
    const further = this.#statements.further.get(int(row, "seq"))
    const newest = further ?? (intOrNull(row, "at") === null ? undefined : row)
    return {
      revision: rev === null ? "" : String(rev),
      ...(rev === null ? {} : { record: bytesOrNull(row, "record") ?? NOTHING }),
      ...(newest === undefined ? {} : { task: this.#task(newest, now) }),
    }
  }

  #isOver(row: Row, now: number): boolean {
    const until = intOrNull(row, "until")
    return this.#jobs.isExpired({ seq: int(row, "seq"), at: intOrNull(row, "at"), until }, now)
  }

  #task(row: Row, now: number): QueuedTask {
    const due = intOrNull(row, "due")
    const expires = intOrNull(row, "expires")
    return {
      queue: this.#names.nameOf(int(row, "queue")),
      at: int(row, "posted"),
      held: intOrNull(row, "fence") !== null && (intOrNull(row, "at") ?? 0) > now,
      deliveries: int(row, "deliveries"),
      content: bytesOrNull(row, "frame") ?? NOTHING,
      ...(due === null ? {} : { due }),
      ...(expires === null ? {} : { expires }),
    }
  }
}
