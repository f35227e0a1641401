/**
 * Reads and writes the rows of jobs: their tasks and records. The rules of publishing and committing are in `queue/`
 * and `records/`.
 */
import { type Database, int, intOrNull, type Row, textOrNull } from "../database/database.ts"
import { type ListLink, linksOf, type PostingColumns, type RecordColumns, untilOf } from "./columns.ts"
import { type IdColumn, idFromColumn, queueOrderOf, type Token } from "./id.ts"
import type { QueueNames } from "./queue-names.ts"

/** One row of the job table; the schema says what the columns mean. */
export interface JobRow {
  readonly seq: number
  readonly of: number | null
  readonly key: string | null
  readonly queue: number
  readonly at: number | null
  readonly fence: number | null
  readonly rev: number | null
  readonly until: number | null
}

const COLUMNS = "seq, of, key, queue, at, fence, rev, until"

const jobRow = (row: Row): JobRow => ({
  seq: int(row, "seq"),
  of: intOrNull(row, "of"),
  key: textOrNull(row, "key"),
  queue: int(row, "queue"),
  at: intOrNull(row, "at"),
  fence: intOrNull(row, "fence"),
  rev: intOrNull(row, "rev"),
  until: intOrNull(row, "until"),
})

export class JobTable {
  readonly #ns: number
  readonly #names: QueueNames
  readonly #statements

  constructor(database: Database, ns: number, names: QueueNames) {
    this.#ns = ns
    this.#names = names
    const prepare = (sql: string) => database.prepare(sql)
    this.#statements = {
      byId: prepare(`SELECT ${COLUMNS} FROM callboard_job WHERE ns = ? AND id = ?`),
      bySeq: prepare(`SELECT ${COLUMNS} FROM callboard_job WHERE seq = ?`),
      further: prepare("SELECT seq FROM callboard_job WHERE of = ?"),
      idOf: prepare("SELECT id FROM callboard_job WHERE seq = ?"),
      insert: prepare(
        `INSERT INTO callboard_job
           (seq, ns, id, key, queue, task, method, tenant, submitted, place, at, due, expires, posted, bytes)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
      ),
      insertFurther: prepare(
        `INSERT INTO callboard_job (seq, ns, of, key, queue, task, submitted, place, at, due, expires, posted, bytes)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      ),
      insertRecord: prepare(
        `INSERT INTO callboard_job
           (seq, ns, id, queue, task, method, tenant, submitted, state, rev, until, hidden, dead, error)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      ),
      insertLoad: prepare("INSERT INTO callboard_load (seq, frame, record) VALUES (?, ?, ?)"),
      insertLink: prepare("INSERT OR IGNORE INTO callboard_link (ns, kind, ref, seq) VALUES (?, ?, ?, ?)"),
      hasKey: prepare("SELECT 1 FROM callboard_key WHERE seq = ? AND key = ?"),
      insertKey: prepare("INSERT OR IGNORE INTO callboard_key (seq, key) VALUES (?, ?)"),
      putTask: prepare(
        `UPDATE callboard_job SET key = ?, queue = ?, task = ?, method = ?, tenant = ?, place = ?, at = ?, fence = NULL,
           deliveries = 0, due = ?, expires = ?, posted = ?, bytes = ? WHERE seq = ?`,
      ),
      putFrame: prepare("UPDATE callboard_load SET frame = ? WHERE seq = ?"),
      putRecord: prepare(
        `UPDATE callboard_job SET queue = ?, task = ?, method = ?, tenant = ifnull(?, tenant), submitted = ?, state = ?, rev = ?,
           until = ?, hidden = ?, dead = ?, error = ? WHERE seq = ?`,
      ),
      putRecordLoad: prepare("UPDATE callboard_load SET record = ? WHERE seq = ?"),
      clearTask: prepare("UPDATE callboard_job SET at = NULL, expires = NULL WHERE seq = ?"),
      release: prepare("UPDATE callboard_job SET at = ?, fence = NULL WHERE seq = ?"),
      removeJob: prepare("DELETE FROM callboard_job WHERE seq = ?"),
      removeLoad: prepare("DELETE FROM callboard_load WHERE seq = ?"),
      removeLinks: prepare("DELETE FROM callboard_link WHERE seq = ?"),
      removeKeys: prepare("DELETE FROM callboard_key WHERE seq = ?"),
    }
  }

  // ── looking up ──────────────────────────────────────────────────────────────────────────────────────────────────────

  byId(id: IdColumn): JobRow | undefined {
    const row = this.#statements.byId.get(this.#ns, id)
    return row && jobRow(row)
  }

  /** Like {@link byId}, inside a transaction: a job that has expired is removed and not returned. */
  current(id: IdColumn, now: number): JobRow | undefined {
    const row = this.byId(id)
    if (row === undefined || !this.isExpired(row, now)) return row
    this.remove(row.seq)
    return undefined
  }

  bySeq(seq: number): JobRow | undefined {
    const row = this.#statements.bySeq.get(seq)
    return row && jobRow(row)
  }

  /** Whether a job may be removed: its record's time is over, and no task of it is in a queue. */
  isExpired({ seq, at, until }: Pick<JobRow, "seq" | "at" | "until">, now: number): boolean {
    return at === null && until !== null && until <= now && !this.hasFurther(seq)
  }

  /** Whether a job has further tasks, which are in rows of their own. */
  hasFurther(seq: number): boolean {
    return this.#statements.further.get(seq) !== undefined
  }

  /** Id of the job that a row belongs to; the row may be that of a further task. */
  idOf(row: Pick<JobRow, "seq" | "of">): string {
    return idFromColumn(this.#statements.idOf.get(row.of ?? row.seq)?.["id"])
  }

  // ── tasks ───────────────────────────────────────────────────────────────────────────────────────────────────────────

  /**
   * Stores the first task of a job; `false` when the job has a row already. `at` is when the task is ready, 0 for now.
   */
  insert(columns: PostingColumns, seq: number, at: number, now: number): boolean {
    const { posting, id, key, submitted, due, expires, frame, links } = columns
    const { task, method: meth = null, tenant = null } = posting.index
    const { insert, insertLoad } = this.#statements
    const queue = this.#names.idOf(posting.queue)
    const place = queueOrderOf(posting.level, seq)
    const size = frame.length
    const ns = this.#ns
    const { changes } = insert.run(
      seq,
      ns,
      id,
      key,
      queue,
      task,
      meth,
      tenant,
      submitted,
      place,
      at,
      due,
      expires,
      now,
      size,
    )
    if (changes === 0) return false
    insertLoad.run(seq, frame, null)
    this.#link(links, seq)
    return true
  }

  /** Whether a task with this key was published before. */
  knows(row: JobRow, key: string): boolean {
    return row.key === key || this.#statements.hasKey.get(row.seq, key) !== undefined
  }

  /** Adds a task to a job that has a row: into that row when no task is in it, else into a row of its own. */
  add(row: JobRow, columns: PostingColumns, order: number, at: number, now: number): void {
    const { posting, key, submitted, due, expires, frame, links } = columns
    const { task, method = null, tenant = null } = posting.index
    const { insertKey, putTask, putFrame, insertFurther, insertLoad } = this.#statements
    const queue = this.#names.idOf(posting.queue)
    const place = queueOrderOf(posting.level, order)
    if (row.at === null) {
      if (row.key !== null) insertKey.run(row.seq, row.key)
      putTask.run(key, queue, task, method, tenant, place, at, due, expires, now, frame.length, row.seq)
      putFrame.run(frame, row.seq)
    } else {
      insertKey.run(row.seq, key)
      const times = [at, due, expires, now]
      insertFurther.run(order, this.#ns, row.seq, key, queue, task, submitted, place, ...times, frame.length)
      insertLoad.run(order, frame, null)
    }
    this.#link(links, row.seq)
  }

  /**
   * The row of the task that this delivery has. A delivery whose lease ended still has it until another delivery takes
   * it.
   */
  held({ seq, fence }: Token): JobRow | undefined {
    const row = this.bySeq(seq)
    return row !== undefined && row.at !== null && row.fence === fence ? row : undefined
  }

  /** Returns a task to its queue, ready at `at`; 0 is now. */
  release(row: JobRow, at: number): void {
    this.#statements.release.run(at, row.seq)
  }

  /** Takes a task off its queue. When the job has no record, its row goes too. */
  acknowledge(task: JobRow): void {
    if (task.of === null) {
      this.#clearTask(task)
    } else {
      this.remove(task.seq)
      const job = this.bySeq(task.of)
      if (job?.at === null) this.#clearTask(job)
    }
  }

  /** Takes all tasks of a job off their queues, also those that a delivery has. */
  withdraw(job: JobRow): void {
    for (const further of this.#statements.further.all(job.seq)) this.remove(int(further, "seq"))
    this.#clearTask(job)
  }

  #clearTask({ seq, rev }: JobRow): void {
    if (rev === null && !this.hasFurther(seq)) {
      this.remove(seq)
    } else {
      this.#statements.clearTask.run(seq)
      this.#statements.putFrame.run(null, seq)
    }
  }

  // ── records ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Stores the record of a job that has no row. */
  insertRecord(columns: RecordColumns, seq: number, rev: number, now: number): void {
    const { id, bytes, index } = columns
    const { insertRecord, insertLoad } = this.#statements
    const queue = this.#names.idOf(index.queue)
    insertRecord.run(seq, this.#ns, id, queue, ...recordValues(columns, rev, now))
    insertLoad.run(seq, null, bytes)
    this.#link(linksOf(idFromColumn(id), index), seq)
  }

  /** Stores a record in the row of its job. A task that is in a queue stays there. */
  putRecord(row: JobRow, columns: RecordColumns, rev: number, now: number): void {
    const queue = row.at === null ? this.#names.idOf(columns.index.queue) : row.queue
    this.#statements.putRecord.run(queue, ...recordValues(columns, rev, now), row.seq)
    this.#statements.putRecordLoad.run(columns.bytes, row.seq)
  }

  remove(seq: number): void {
    this.#statements.removeJob.run(seq)
    this.#statements.removeLoad.run(seq)
    this.#statements.removeLinks.run(seq)
    this.#statements.removeKeys.run(seq)
  }

  #link(links: ReadonlyArray<ListLink>, seq: number): void {
    for (const { kind, ref } of links) this.#statements.insertLink.run(this.#ns, kind, ref, seq)
  }
}

const recordValues = (columns: RecordColumns, rev: number, now: number) => {
  const { index, submitted, state } = columns
  const { task, method = null, tenant = null, hidden, dead, error = null } = index
  const until = untilOf(columns, now)
  return [task, method, tenant, submitted, state, rev, until, hidden ? 1 : 0, dead ? 1 : 0, error]
}
