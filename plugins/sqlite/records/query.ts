/**
 * Lists jobs, newest first, in slices: between two of them the event loop runs. Rare states and links have an index;
 * everything else is read in the order of submission, over small rows and with the payload of hits only.
 */
import type { SQLInputValue, StatementSync } from "node:sqlite"
import type { State } from "../../../runtime/protocol/state.ts"
import {
  isOfTask,
  type JobRecord,
  type RecordPage,
  type RecordQuery,
  TransportError,
} from "../../../runtime/transport/mod.ts"
import type { Database } from "../database/database.ts"
import { codeOf, GROUP, type LinkKind, PARENT, ROOT } from "../jobs/column.ts"
import { idToColumn } from "../jobs/id.ts"
import { COLUMNS, type JobRow, type JobTable, jobRow } from "../jobs/job-table.ts"
import type { QueueNames } from "../jobs/name.ts"
import { viewOf } from "./view.ts"

/** Numbers of rows in one slice: a few milliseconds, as most numbers are fences and revisions. */
const SLICE = 40_000

/** Hits that are looked at between two turns of the event loop. */
const HITS = 100

/** A page ends early rather than hold more than this. */
const PAGE_BYTES = 16 * 1024 * 1024

const TOP = Number.MAX_SAFE_INTEGER

const pause = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

export class Lister {
  readonly #database: Database
  readonly #ns: number
  readonly #jobs: JobTable
  readonly #names: QueueNames
  readonly #statements = new Map<string, StatementSync>()

  constructor(database: Database, ns: number, jobs: JobTable, names: QueueNames) {
    this.#database = database
    this.#ns = ns
    this.#jobs = jobs
    this.#names = names
  }

  /** Fails with `invalid`. */
  async query(query: RecordQuery): Promise<RecordPage> {
    const { limit } = query
    if (!(Number.isInteger(limit) && limit >= 1 && limit <= 1_000)) {
      throw new TransportError("invalid", `limit must be 1 to 1,000, not ${limit}`)
    }
    const records: Array<JobRecord> = []
    let bytes = 0
    let last = 0
    for await (const { seq } of this.#rows(query, query.after === undefined ? TOP : cursorOf(query.after))) {
      const { record, size } = this.#read(seq)
      if (record === undefined || !matches(record, query)) continue
      bytes += size
      if (records.length === limit || (bytes > PAGE_BYTES && records.length > 0)) return { records, next: String(last) }
      records.push(record)
      last = seq
    }
    return { records }
  }

  /** A job as it is now, read anew: since its row was listed, another process may have moved it on. */
  #read(seq: number): { readonly record: JobRecord | undefined; readonly size: number } {
    return this.#database.snapshot(() => {
      const row = this.#jobs.bySeq(seq)
      if (row === undefined) return { record: undefined, size: 0 }
      const load = this.#jobs.load(seq)
      const record = viewOf(row, this.#jobs.idOf(row), this.#names.nameOf(row.queue), load, Date.now())
      return { record, size: (load.envelope?.length ?? 0) + (load.record?.length ?? 0) }
    })
  }

  /** Rows that may match, newest first, below a number. */
  #rows(query: RecordQuery, below: number): AsyncIterable<JobRow> {
    const { rootId, parentId, group, states, dead } = query
    if (group !== undefined) return this.#linked(GROUP, group, below)
    if (parentId !== undefined) return this.#linked(PARENT, parentId, below)
    if (rootId !== undefined) return this.#linked(ROOT, rootId, below)
    const rare = rareStates(states, dead === true)
    return rare === undefined ? this.#scanned(query, below) : this.#inStates(rare, below)
  }

  async *#linked(kind: LinkKind, to: string, below: number): AsyncGenerator<JobRow> {
    const statement = this.#prepare(
      `SELECT ${COLUMNS} FROM callboard_job WHERE seq IN (
         SELECT seq FROM callboard_link WHERE ns = ?1 AND kind = ?2 AND ref = ?3 AND seq < ?4 ORDER BY seq DESC LIMIT ${HITS}
       ) ORDER BY seq DESC`,
    )
    const ref = idToColumn(to)
    // A root is not linked to itself.
    const root = kind === ROOT ? this.#jobs.byId(ref) : undefined
    let from = below
    for (;;) {
      const rows = statement.all(this.#ns, kind, ref, from).map(jobRow)
      for (const row of rows) {
        if (root !== undefined && root.seq < from && root.seq > row.seq) yield root
        yield row
        from = row.seq
      }
      if (rows.length < HITS) break
      await pause()
    }
    if (root !== undefined && root.seq < from) yield root
  }

  async *#inStates(states: ReadonlyArray<State>, below: number): AsyncGenerator<JobRow> {
    // `state <> 4` is what the index demands.
    const statement = this.#prepare(
      `SELECT ${COLUMNS} FROM callboard_job INDEXED BY callboard_job_state
       WHERE ns = ? AND state = ? AND state <> 4 AND seq < ? ORDER BY seq DESC LIMIT ${HITS}`,
    )
    let from = below
    for (;;) {
      const lists = states.map((state) => statement.all(this.#ns, codeOf(state), from).map(jobRow))
      const rows = lists.flat().sort((a, b) => b.seq - a.seq)
      // Below the end of a list that was cut off, that list may hold more.
      const end = Math.max(0, ...lists.map((list) => (list.length < HITS ? 0 : (list.at(-1)?.seq ?? 0))))
      for (const row of rows) if (row.seq >= end) yield row
      if (end === 0) return
      from = end
      await pause()
    }
  }

  async *#scanned({ states, task, queue }: RecordQuery, below: number): AsyncGenerator<JobRow> {
    const conditions = ["ns = ?", "of IS NULL", "grave = 0", "(at IS NOT NULL OR state IS NOT NULL)"]
    const values: Array<SQLInputValue> = [this.#ns]
    if (states !== undefined) {
      const codes = states.map(codeOf).filter((code) => code >= 0)
      // A task that waits shows where it is, whatever its record said last.
      conditions.push(`(at IS NOT NULL OR state IN (${codes.join(", ")}))`)
    }
    if (task !== undefined) {
      // The row has the task header alone: which method it is, its record says.
      conditions.push("task IN (?, ?)")
      values.push(task, actorOf(task))
    }
    if (queue !== undefined) {
      conditions.push("queue = ?")
      values.push(this.#names.find(queue) ?? -1)
    }
    const statement = this.#prepare(
      `SELECT ${COLUMNS} FROM callboard_job WHERE ${conditions.join(" AND ")} AND seq < ? AND seq >= ?
       ORDER BY seq DESC LIMIT ${HITS}`,
    )
    const highest = this.#prepare("SELECT max(seq) AS seq FROM callboard_job WHERE seq < ?")
    let from = below
    for (;;) {
      // Numbers have gaps; a slice begins where there is a row.
      const top = highest.get(from)?.["seq"]
      if (typeof top !== "number") return
      const start = Math.max(0, top - SLICE)
      let end = top + 1
      for (;;) {
        const rows = statement.all(...values, end, start).map(jobRow)
        yield* rows
        if (rows.length < HITS) break
        end = rows.at(-1)?.seq ?? start
        await pause()
      }
      from = start
      if (from === 0) return
      await pause()
    }
  }

  #prepare(sql: string): StatementSync {
    const known = this.#statements.get(sql)
    if (known !== undefined) return known
    const statement = this.#database.prepare(sql)
    this.#statements.set(sql, statement)
    return statement
  }
}

/** The states to look up in the index, if it holds all that may match. */
const rareStates = (states: ReadonlyArray<State> | undefined, dead: boolean): ReadonlyArray<State> | undefined => {
  const wanted = states ?? (dead ? (["failed", "cancelled", "expired"] as const) : undefined)
  const indexed = wanted?.every((state) => state !== "succeeded" && state !== "scheduled" && state !== "queued")
  return indexed ? wanted : undefined
}

const matches = (record: JobRecord, query: RecordQuery): boolean =>
  !record.tombstone &&
  (query.states === undefined || query.states.includes(record.state)) &&
  (query.task === undefined || isOfTask(record, query.task)) &&
  (query.queue === undefined || query.queue === record.queue) &&
  (query.rootId === undefined || query.rootId === record.rootId) &&
  (query.parentId === undefined || query.parentId === record.parentId) &&
  (query.group === undefined || query.group === record.group) &&
  (!query.dead || record.dead !== undefined)

/** The actor of `actor.method`; a name without a method is itself. */
const actorOf = (task: string): string => {
  const dot = task.lastIndexOf(".")
  return dot < 0 ? task : task.slice(0, dot)
}

const cursorOf = (cursor: string): number => {
  if (/^\d{1,15}$/.test(cursor)) return Number(cursor)
  throw new TransportError("invalid", `not a cursor of this transport: ${JSON.stringify(cursor.slice(0, 40))}`)
}
