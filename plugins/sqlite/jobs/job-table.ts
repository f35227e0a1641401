/** The rows of jobs: looking them up, putting records and tasks into them, removing them. Knows no rules. */
import { recordFromJson } from "../../../runtime/protocol/record.ts"
import { type JobRecord, TOMBSTONE_MS, TransportError } from "../../../runtime/transport/mod.ts"
import type { Database } from "../database/database.ts"
import { bytesOrNull, int, intOrNull, type Row, textOrNull } from "../database/row.ts"
import type { Link, PostingColumns, RecordColumns } from "./column.ts"
import { type IdColumn, idFromColumn } from "./id.ts"
import type { QueueNames } from "./name.ts"
import { placeOf, type Token } from "./number.ts"

/** One row. See the schema for what the columns mean. */
export interface JobRow {
  readonly seq: number
  readonly of: number | null
  readonly nth: number
  readonly queue: number
  readonly place: number | null
  readonly at: number | null
  readonly fence: number | null
  readonly deliveries: number
  readonly touched: number
  readonly due: number | null
  readonly expires: number | null
  readonly posted: number | null
  readonly state: number | null
  readonly rev: number | null
  readonly over: number | null
  readonly grave: number
  readonly keeps: number
}

export const COLUMNS =
  "seq, of, nth, queue, place, at, fence, deliveries, touched, due, expires, posted, state, rev, over, grave, keeps"

export const jobRow = (row: Row): JobRow => ({
  seq: int(row, "seq"),
  of: intOrNull(row, "of"),
  nth: int(row, "nth"),
  queue: int(row, "queue"),
  place: intOrNull(row, "place"),
  at: intOrNull(row, "at"),
  fence: intOrNull(row, "fence"),
  deliveries: int(row, "deliveries"),
  touched: int(row, "touched"),
  due: intOrNull(row, "due"),
  expires: intOrNull(row, "expires"),
  posted: intOrNull(row, "posted"),
  state: intOrNull(row, "state"),
  rev: intOrNull(row, "rev"),
  over: intOrNull(row, "over"),
  grave: int(row, "grave"),
  keeps: int(row, "keeps"),
})

/** Whether a job has ended so long ago that not even its tombstone is to be seen. */
export const isGone = ({ at, over, grave }: JobRow, now: number): boolean =>
  at === null && over !== null && (grave === 1 ? over : over + TOMBSTONE_MS) <= now

/** What a row carries. */
export interface Load {
  readonly envelope: Uint8Array | null
  readonly record: string | null
}

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
      older: prepare(`SELECT ${COLUMNS} FROM callboard_job WHERE of = ? AND fence = ?`),
      latestOlder: prepare(`SELECT ${COLUMNS} FROM callboard_job WHERE of = ? ORDER BY nth DESC LIMIT 1`),
      hasOlder: prepare("SELECT 1 FROM callboard_job WHERE of = ?"),
      idOf: prepare("SELECT id FROM callboard_job WHERE seq = ?"),
      load: prepare("SELECT envelope, record FROM callboard_load WHERE seq = ?"),
      record: prepare("SELECT record FROM callboard_load WHERE seq = ?"),
      insert: prepare(
        `INSERT INTO callboard_job (seq, ns, id, nth, queue, task, place, at, due, expires, posted, bytes)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
      ),
      insertRecord: prepare(
        `INSERT INTO callboard_job (seq, ns, id, nth, queue, task, state, rev, over, grave, keeps)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      ),
      insertLoad: prepare("INSERT INTO callboard_load (seq, envelope, record) VALUES (?, ?, ?)"),
      insertLink: prepare("INSERT OR IGNORE INTO callboard_link (ns, kind, ref, seq) VALUES (?, ?, ?, ?)"),
      hasKey: prepare("SELECT 1 FROM callboard_key WHERE seq = ? AND nth = ?"),
      insertKey: prepare("INSERT OR IGNORE INTO callboard_key (seq, nth) VALUES (?, ?)"),
      removeKeys: prepare("DELETE FROM callboard_key WHERE seq = ?"),
      insertOlder: prepare(
        `INSERT INTO callboard_job (seq, ns, of, nth, queue, task, place, at, touched, due, expires, posted, bytes)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?)`,
      ),
      copyTask: prepare(
        `INSERT INTO callboard_job
           (seq, ns, of, nth, queue, task, place, at, fence, deliveries, touched, due, expires, posted, bytes)
         SELECT ?, ns, seq, nth, queue, task, place, at, fence, deliveries, touched, due, expires, posted, bytes
         FROM callboard_job WHERE seq = ?`,
      ),
      copyEnvelope: prepare(
        "INSERT INTO callboard_load (seq, envelope) SELECT ?, envelope FROM callboard_load WHERE seq = ?",
      ),
      putTask: prepare(
        `UPDATE callboard_job SET nth = ?, queue = ?, task = ?, place = ?, at = ?, fence = NULL, deliveries = 0,
           touched = ?, due = ?, expires = ?, posted = ?, bytes = ? WHERE seq = ?`,
      ),
      putEnvelope: prepare("UPDATE callboard_load SET envelope = ? WHERE seq = ?"),
      putRecord: prepare(
        `UPDATE callboard_job SET queue = ?, task = ?, state = ?, rev = ?, over = ?, grave = ?, keeps = ?
         WHERE seq = ?`,
      ),
      putJson: prepare("UPDATE callboard_load SET record = ? WHERE seq = ?"),
      putState: prepare("UPDATE callboard_job SET state = ? WHERE seq = ?"),
      clearTask: prepare("UPDATE callboard_job SET at = NULL, expires = NULL WHERE seq = ?"),
      hold: prepare("UPDATE callboard_job SET at = ? WHERE seq = ?"),
      release: prepare("UPDATE callboard_job SET at = ?, fence = ? WHERE seq = ?"),
      removeJob: prepare("DELETE FROM callboard_job WHERE seq = ?"),
      removeLoad: prepare("DELETE FROM callboard_load WHERE seq = ?"),
      removeLinks: prepare("DELETE FROM callboard_link WHERE seq = ?"),
      allOlder: prepare("SELECT seq FROM callboard_job WHERE of = ?"),
    }
  }

  // ── looking up ──────────────────────────────────────────────────────────────────────────────────────────────────────

  byId(id: IdColumn): JobRow | undefined {
    const row = this.#statements.byId.get(this.#ns, id)
    return row && jobRow(row)
  }

  /** The same inside a transaction: what is over, and only waits to be swept away, is no longer there. */
  current(id: IdColumn, now: number): JobRow | undefined {
    const row = this.byId(id)
    if (row === undefined || !isGone(row, now)) return row
    this.remove(row.seq)
    return undefined
  }

  bySeq(seq: number): JobRow | undefined {
    const row = this.#statements.bySeq.get(seq)
    return row && jobRow(row)
  }

  /** The row of the task that this delivery has, or had until its lease lapsed and nobody took it over. */
  held(token: Token): JobRow | undefined {
    const row = this.bySeq(token.seq)
    if (row !== undefined && row.at !== null && row.fence === token.fence) return row
    // A newer posting of the job has moved this one into a row of its own.
    const older = this.#statements.older.get(token.seq, token.fence)
    return older && jobRow(older)
  }

  /** The latest of the older postings of a job that are still out. */
  olderOf(row: JobRow): JobRow | undefined {
    const older = this.#statements.latestOlder.get(row.seq)
    return older && jobRow(older)
  }

  /** Id of the job that a row belongs to. */
  idOf(row: Pick<JobRow, "seq" | "of">): string {
    return idFromColumn(this.#statements.idOf.get(row.of ?? row.seq)?.["id"])
  }

  load(seq: number): Load {
    const row = this.#statements.load.get(seq) ?? {}
    return { envelope: bytesOrNull(row, "envelope"), record: textOrNull(row, "record") }
  }

  /** What is stored about a job, reports included. */
  record(row: JobRow): JobRecord | undefined {
    if (row.state === null) return undefined
    return readRecord(textOrNull(this.#statements.record.get(row.seq) ?? {}, "record"))
  }

  // ── tasks ───────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Stores the first posting of a job; `false` when the job is known already. */
  insert(columns: PostingColumns, seq: number, at: number): boolean {
    const { id, nth, task, frame, due, expires, posted, posting } = columns
    const place = placeOf(posting.level, seq)
    const queue = this.#names.idOf(posting.queue)
    const { insert, insertLoad } = this.#statements
    const bytes = frame.length
    const { changes } = insert.run(seq, this.#ns, id, nth, queue, task, place, at, due, expires, posted, bytes)
    if (changes === 0) return false
    insertLoad.run(seq, frame, null)
    this.#link(columns.links, seq)
    return true
  }

  /** Whether a posting of a job was published before. */
  knows(row: JobRow, nth: number): boolean {
    return row.nth === nth || (nth < row.nth && this.#statements.hasKey.get(row.seq, nth) !== undefined)
  }

  /** Puts one more posting of a job into its queue. */
  add(row: JobRow, columns: PostingColumns, order: number, at: number): void {
    if (columns.nth > row.nth) this.#replace(row, columns, order, at)
    else this.#insertOlder(row, columns, order, at)
  }

  /** Puts a later posting into the row of its job. One that is still out moves into a row of its own. */
  #replace(row: JobRow, columns: PostingColumns, order: number, at: number): void {
    const { copyTask, copyEnvelope, putTask, putEnvelope } = this.#statements
    const { nth, task, frame, due, expires, posted, posting } = columns
    if (row.at !== null) {
      copyTask.run(order, row.seq)
      copyEnvelope.run(order, row.seq)
    }
    const queue = this.#names.idOf(posting.queue)
    const touched = row.touched === 1 || row.deliveries > 0 ? 1 : 0
    const place = placeOf(posting.level, order)
    putTask.run(nth, queue, task, place, at, touched, due, expires, posted, frame.length, row.seq)
    putEnvelope.run(frame, row.seq)
    if (row.nth > 0) this.#statements.insertKey.run(row.seq, row.nth)
    this.#link(columns.links, row.seq)
  }

  /** A posting that comes after a later one of its job. */
  #insertOlder(row: JobRow, columns: PostingColumns, order: number, at: number): void {
    const { nth, task, frame, due, expires, posted, posting } = columns
    const { insertOlder, insertLoad, insertKey } = this.#statements
    const queue = this.#names.idOf(posting.queue)
    const place = placeOf(posting.level, order)
    insertOlder.run(order, this.#ns, row.seq, nth, queue, task, place, at, due, expires, posted, frame.length)
    insertLoad.run(order, frame, null)
    insertKey.run(row.seq, nth)
  }

  /** Gives the delivery that has a task a lease until `at`. */
  hold(row: JobRow, at: number): void {
    this.#statements.hold.run(at, row.seq)
  }

  /** Hands a task back; ready at `at`, 0 is now. What is put off keeps in mind who did so. */
  release(row: JobRow, at: number): void {
    this.#statements.release.run(at, at === 0 || row.fence === null ? null : -row.fence, row.seq)
  }

  /**
   * Takes a task off the queue. Of a job about which nothing is stored, nothing stays.
   * `envelope` is the task that the record keeps, if it was just written.
   */
  acknowledge(row: JobRow, stored: boolean, keeps: boolean, envelope: Uint8Array | null): void {
    const { clearTask, putEnvelope, hasOlder } = this.#statements
    if (row.of !== null) {
      this.remove(row.seq)
      const job = this.bySeq(row.of)
      if (job?.at === null && job.state === null && hasOlder.get(job.seq) === undefined) this.remove(job.seq)
    } else if (stored || hasOlder.get(row.seq) !== undefined) {
      clearTask.run(row.seq)
      if (!keeps) putEnvelope.run(null, row.seq)
      else if (envelope !== null) putEnvelope.run(envelope, row.seq)
    } else {
      this.remove(row.seq)
    }
  }

  /** Takes all tasks of a job off their queues, running ones too: what becomes of those is refused. */
  withdraw(row: JobRow): void {
    for (const older of this.#statements.allOlder.all(row.seq)) this.remove(int(older, "seq"))
    if (row.at === null) return
    this.#statements.clearTask.run(row.seq)
    if (row.keeps === 0) this.#statements.putEnvelope.run(null, row.seq)
  }

  // ── records ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Stores the record of a job that has no row; `nth` is the publish key that is known to have been used. */
  insertRecord(columns: RecordColumns, links: ReadonlyArray<Link>, seq: number, rev: number, nth: number): void {
    const { record, id, state, over, grave, frame, json } = columns
    const queue = this.#names.idOf(record.queue)
    const { insertRecord, insertLoad } = this.#statements
    insertRecord.run(seq, this.#ns, id, nth, queue, record.task, state, rev, over, grave, frame === null ? 0 : 1)
    insertLoad.run(seq, frame, json)
    this.#link(links, seq)
  }

  /** Stores a record in the row of its job. While a task is in the queue, the record's own copy of it is not needed. */
  putRecord(row: JobRow, columns: RecordColumns, rev: number): void {
    const { record, state, over, grave, frame, json } = columns
    const queue = row.at === null ? this.#names.idOf(record.queue) : row.queue
    const keeps = frame === null ? 0 : 1
    this.#statements.putRecord.run(queue, record.task, state, rev, over, grave, keeps, row.seq)
    this.#statements.putJson.run(json, row.seq)
    if (row.at === null) this.#statements.putEnvelope.run(frame, row.seq)
  }

  /** Stores what a run said about itself; revisions stay as they are. */
  putReport(row: JobRow, columns: RecordColumns): void {
    this.#statements.putState.run(columns.state, row.seq)
    this.#statements.putJson.run(columns.json, row.seq)
  }

  remove(seq: number): void {
    this.#statements.removeJob.run(seq)
    this.#statements.removeLoad.run(seq)
    this.#statements.removeLinks.run(seq)
    this.#statements.removeKeys.run(seq)
  }

  #link(links: ReadonlyArray<Link>, seq: number): void {
    for (const { kind, ref } of links) this.#statements.insertLink.run(this.#ns, kind, ref, seq)
  }
}

export const readRecord = (json: string | null): JobRecord => {
  const record = recordFromJson(json ?? "")
  if (record._tag === "Success") return record.success
  throw new TransportError("internal", `the database holds a record that cannot be read: ${record.failure.message}`)
}
