/**
 * Lists jobs, newest first, in slices between which the event loop runs. States, queues, tasks, failures and links between jobs
 * have an index; every other query reads the rows in the order of submission. The payload is loaded of matches only.
 */
import type { SQLInputValue, StatementSync } from "node:sqlite"
import type { State } from "../../../runtime/protocol/state.ts"
import { TransportError } from "../../../runtime/transport/mod.ts"
import type { FoundJob, FoundJobs, Query } from "../../../runtime/transport/optional.ts"
import { nextTurn } from "../../../runtime/transport/timers.ts"
import { type Database, int } from "../database/database.ts"
import { codeOf, GROUP, type LinkKind, PARENT, ROOT } from "../jobs/columns.ts"
import { idToColumn } from "../jobs/id.ts"
import type { JobTable } from "../jobs/job-table.ts"
import type { QueueNames } from "../jobs/queue-names.ts"
import type { JobReader } from "./read.ts"

/**
 * Span of row numbers that one slice covers: a few milliseconds, because most numbers of the counter are fences and
 * revisions and not rows.
 */
const SLICE = 40_000

/** Index entries that one slice of a count reads: about two milliseconds. */
const COUNTED = 20_000

/** Most rows that one slice yields. */
const HITS = 100

/** A page ends early when its records and tasks have more bytes than this. */
const PAGE_BYTES = 16 * 1024 * 1024

/** Most tasks that a list of waiting jobs looks up in the order of their queues, and then sorts: about five milliseconds. */
const FEW = 5_000
/** The same number for a list of one task, whose jobs have an index of their own. */
const VERY_FEW = 500

const TOP = Number.MAX_SAFE_INTEGER

/**
 * Row numbers of matches, newest first. The next slice is below `end`; 0 if there is none. `read`: how many rows or entries
 * were read to find them.
 */
interface Slice {
  readonly seqs: ReadonlyArray<number>
  readonly end: number
  readonly read: number
}

/** A condition on rows in SQL, and the values for it. */
interface Condition {
  readonly sql: string
  readonly values: ReadonlyArray<SQLInputValue>
}

export class JobLister {
  readonly #database: Database
  readonly #ns: number
  readonly #jobs: JobTable
  readonly #names: QueueNames
  readonly #reader: JobReader
  readonly #statements = new Map<string, StatementSync>()

  constructor(database: Database, ns: number, jobs: JobTable, names: QueueNames, reader: JobReader) {
    this.#database = database
    this.#ns = ns
    this.#jobs = jobs
    this.#names = names
    this.#reader = reader
  }

  /** One page of jobs. Fails with `invalid`. */
  async query(query: Query): Promise<FoundJobs> {
    const { limit, after, budget = Number.POSITIVE_INFINITY, signal, since, bare } = query
    if (!(Number.isInteger(limit) && limit >= 1 && limit <= 1_000)) {
      throw new TransportError("invalid", `limit must be 1 to 1,000, not ${limit}`)
    }
    const stop = performance.now() + budget
    const jobs: Array<FoundJob> = []
    let bytes = 0
    let last = 0
    let scanned = 0
    for (const { seqs, end, read } of this.#slices(query, after === undefined ? TOP : cursorOf(after))) {
      scanned += read
      for (const seq of seqs) {
        if (jobs.length === limit) return { jobs, next: String(last), scanned }
        // The job is read again, because another process may have changed it since its row was found.
        const job = bare ? { id: "", revision: "" } : this.#reader.bySeq(seq)
        if (job === undefined) continue
        bytes += (job.record?.length ?? 0) + sizeOf(job)
        if (bytes > PAGE_BYTES && jobs.length > 0) return { jobs, next: String(last), scanned }
        jobs.push(job)
        last = seq
      }
      if (end === 0 || (since !== undefined && this.#isBefore(end, since))) break
      if (signal?.aborted || performance.now() >= stop) return { jobs, next: String(end), partial: true, scanned }
      await nextTurn()
    }
    return { jobs, scanned }
  }

  #slices(query: Query, below: number): Iterable<Slice> {
    const { root, parent, group, states, dead, error, task, queue } = query
    const condition = this.#condition(query)
    if (group !== undefined) return this.#linked(GROUP, group, condition, below)
    if (parent !== undefined) return this.#linked(PARENT, parent, condition, below)
    if (root !== undefined) return this.#linked(ROOT, root, condition, below)
    const ns = this.#ns
    if (error !== undefined) {
      const sql = "INDEXED BY callboard_job_error WHERE error IS NOT NULL AND ns = ? AND error = ?"
      return this.#ranges([{ sql, values: [ns, error] }], condition, below)
    }
    const few = states?.every((state) => WAITING.includes(state)) ? this.#fewTasks(queue) : undefined
    if (few !== undefined && (task === undefined || few.length <= VERY_FEW)) {
      return this.#sorted(few, condition, below)
    }
    const rare = listedStates(states, dead === true, task === undefined && queue === undefined)
    if (rare !== undefined) return this.#ranges(this.#stateRanges(rare, queue, task), condition, below)
    if (task !== undefined) {
      const sql = "INDEXED BY callboard_job_task WHERE ns = ? AND task = ?"
      const ranges = tasksOf(task).map((each) => ({ sql, values: [ns, each] }))
      return this.#ranges(ranges, condition, below)
    }
    if (queue !== undefined) {
      const sql = "INDEXED BY callboard_job_queue WHERE queue = ?"
      return this.#ranges([{ sql, values: [this.#names.find(queue) ?? -1] }], condition, below)
    }
    return this.#scanned(condition, below)
  }

  /** Whether all of the newest jobs at and below a row were submitted before a time, so that one job with a wrong clock decides nothing. */
  #isBefore(end: number, since: number): boolean {
    const newest = this.#prepare(
      `SELECT max(submitted) AS at FROM (SELECT submitted FROM callboard_job NOT INDEXED
         WHERE seq <= ? AND ns = ? AND of IS NULL ORDER BY seq DESC LIMIT ${HITS})`,
    )
    const at = newest.get(end, this.#ns)?.["at"]
    return typeof at !== "number" || at < since
  }

  /**
   * Counts entries of an index, in slices between which the event loop runs. Jobs that succeeded have none, so that each
   * of their rows would be read.
   */
  async count(state: State, queue: string | undefined, max = Number.POSITIVE_INFINITY): Promise<number | undefined> {
    if (state === "succeeded") return undefined
    const { sql, values } = this.#indexed(queue)
    const slice = this.#prepare(
      `SELECT count(*) AS count, min(seq) AS seq FROM (
         SELECT seq FROM callboard_job ${sql} AND seq < ? ORDER BY seq DESC LIMIT ?)`,
    )
    let total = 0
    for (let below = TOP; ; ) {
      const asked = Math.min(COUNTED, max + 1 - total)
      const row = slice.get(...values, codeOf(state), below, asked) ?? {}
      const count = int(row, "count")
      total += count
      if (count < asked || total > max) return total
      below = int(row, "seq")
      await nextTurn()
    }
  }

  /**
   * The index for a state that follows as a value. A partial index is used only by a query that repeats its condition.
   */
  #indexed(queue: string | undefined): Condition {
    const partial = "state <> 4 AND hidden = 0"
    if (queue === undefined) {
      return {
        sql: `INDEXED BY callboard_job_state WHERE ${partial} AND ns = ? AND state = ?`,
        values: [this.#ns],
      }
    }
    return {
      sql: `INDEXED BY callboard_job_queue_state WHERE ${partial} AND ns = ? AND queue = ? AND state = ?`,
      values: [this.#ns, this.#names.find(queue) ?? -1],
    }
  }

  /** A range of an index for each state, and each reading of the task. */
  #stateRanges(
    states: ReadonlyArray<State>,
    queue: string | undefined,
    task: string | undefined,
  ): ReadonlyArray<Condition> {
    if (task === undefined) {
      const { sql, values } = this.#indexed(queue)
      const succeeded = "INDEXED BY callboard_job_succeeded WHERE state = 4 AND hidden = 0 AND ns = ?"
      return states.map((state) =>
        state === "succeeded" ? { sql: succeeded, values: [this.#ns] } : { sql, values: [...values, codeOf(state)] },
      )
    }
    const sql =
      "INDEXED BY callboard_job_task_state WHERE state <> 4 AND hidden = 0 AND ns = ? AND task = ? AND state = ?"
    return states.flatMap((state) => tasksOf(task).map((each) => ({ sql, values: [this.#ns, each, codeOf(state)] })))
  }

  #condition({ states, dead, task, queue, since, until, error, idEnds }: Query): Condition {
    const conditions = ["ns = ?", "of IS NULL", "hidden = 0"]
    const values: Array<SQLInputValue> = [this.#ns]
    const must = (sql: string, ...more: ReadonlyArray<SQLInputValue>): void => {
      conditions.push(sql)
      values.push(...more)
    }
    if (states !== undefined) must(inStates(states))
    if (dead) must("dead = 1")
    if (task !== undefined)
      must("task IN (?, ?) AND (task = ? OR task || '.' || method = ?)", task, actorOf(task), task, task)
    if (error !== undefined) must("error = ?", error)
    if (idEnds !== undefined) must("(substr(id, -4) = ? OR lower(substr(id, -8)) = ?)", bytesOf(idEnds), idEnds)
    if (queue !== undefined) must("queue = ?", this.#names.find(queue) ?? -1)
    if (since !== undefined) must("submitted >= ?", Math.floor(since))
    if (until !== undefined) must("submitted < ?", until)
    return { sql: conditions.join(" AND "), values }
  }

  *#linked(kind: LinkKind, to: string, condition: Condition, below: number): Generator<Slice> {
    const links = this.#prepare(
      `SELECT seq FROM callboard_link WHERE ns = ? AND kind = ? AND ref = ? AND seq < ? ORDER BY seq DESC LIMIT ${HITS}`,
    )
    const ref = idToColumn(to)
    // A root has no link to itself, so that its row is looked up by its id.
    const root = kind === ROOT ? this.#jobs.byId(ref)?.seq : undefined
    for (let from = below; from > 0; ) {
      const seqs = links.all(this.#ns, kind, ref, from).map((row) => int(row, "seq"))
      const end = seqs.length < HITS ? 0 : (seqs.at(-1) ?? 0)
      if (root !== undefined && root < from && root >= end) seqs.push(root)
      yield { seqs: this.#matching(seqs, condition), end, read: seqs.length }
      from = end
    }
  }

  /** The rows of several ranges of indexes, merged. */
  *#ranges(ranges: ReadonlyArray<Condition>, condition: Condition, below: number): Generator<Slice> {
    for (let from = below; from > 0; ) {
      const lists = ranges.map(({ sql, values }) =>
        this.#prepare(`SELECT seq FROM callboard_job ${sql} AND seq < ? ORDER BY seq DESC LIMIT ${HITS}`)
          .all(...values, from)
          .map((row) => int(row, "seq")),
      )
      // A list that was cut off may have more rows below its end, so that the slice ends there.
      const end = Math.max(0, ...lists.map((list) => (list.length < HITS ? 0 : (list.at(-1) ?? 0))))
      const seqs = lists.flat().filter((seq) => seq >= end)
      yield { seqs: this.#matching(seqs, condition), end, read: seqs.length }
      from = end
    }
  }

  /**
   * Rows of jobs with a task in a queue; `undefined` if there are many. Few may lie behind very many jobs that have ended,
   * and many are soon met among the newest rows.
   */
  #fewTasks(queue: string | undefined): ReadonlyArray<number> | undefined {
    const select = "SELECT coalesce(of, seq) AS seq FROM callboard_job"
    const later = this.#prepare(`${select} INDEXED BY callboard_job_later WHERE at > 0 LIMIT ?`)
    const ready = this.#prepare(`${select} INDEXED BY callboard_job_ready WHERE queue = ? AND at = 0 LIMIT ?`)
    const seqs = later.all(FEW + 1).map((row) => int(row, "seq"))
    const queues = queue === undefined ? this.#names.all().map(({ id }) => id) : [this.#names.find(queue) ?? -1]
    if (queues.length > FEW) return undefined
    for (const each of queues) {
      if (seqs.length > FEW) return undefined
      seqs.push(...ready.all(each, FEW + 1 - seqs.length).map((row) => int(row, "seq")))
    }
    return seqs.length > FEW ? undefined : seqs
  }

  *#sorted(all: ReadonlyArray<number>, condition: Condition, below: number): Generator<Slice> {
    const seqs = [...new Set(all)].filter((seq) => seq < below).sort((a, b) => b - a)
    for (let at = 0; at < seqs.length; at += HITS) {
      const some = seqs.slice(at, at + HITS)
      const end = at + HITS < seqs.length ? (some.at(-1) ?? 0) : 0
      yield { seqs: this.#matching(some, condition), end, read: some.length }
    }
  }

  #matching(seqs: Iterable<number>, { sql, values }: Condition): ReadonlyArray<number> {
    const matches = this.#prepare(`SELECT 1 FROM callboard_job WHERE ${sql} AND seq = ?`)
    return [...new Set(seqs)].sort((a, b) => b - a).filter((seq) => matches.get(...values, seq) !== undefined)
  }

  *#scanned({ sql, values }: Condition, below: number): Generator<Slice> {
    // Left to itself SQLite finds all jobs of the namespace by another index, and sorts them for each page.
    const within = this.#prepare(
      `SELECT seq FROM callboard_job NOT INDEXED WHERE ${sql} AND seq < ? AND seq >= ? ORDER BY seq DESC LIMIT ${HITS}`,
    )
    const rows = this.#prepare("SELECT count(*) AS count FROM callboard_job NOT INDEXED WHERE seq BETWEEN ? AND ?")
    const highest = this.#prepare("SELECT max(seq) AS seq FROM callboard_job WHERE seq < ?")
    for (let from = below; from > 0; ) {
      // Row numbers have gaps, so that the slice begins at the highest number that a row has.
      const top = highest.get(from)?.["seq"]
      if (typeof top !== "number") return
      const start = Math.max(0, top - SLICE)
      const seqs = within.all(...values, top + 1, start).map((row) => int(row, "seq"))
      const end = seqs.length < HITS ? start : (seqs.at(-1) ?? start)
      yield { seqs, end, read: int(rows.get(end, top) ?? {}, "count") }
      from = end
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

const WAITING: ReadonlyArray<State> = ["scheduled", "queued"]

/**
 * A condition for these states. Whether a waiting job is `scheduled` or `queued` depends on the time, so that the
 * caller decides between the two; a job without a record waits or runs.
 */
const inStates = (states: ReadonlyArray<State>): string => {
  const waits = WAITING.some((state) => states.includes(state))
  const codes = [...new Set(waits ? [...states, ...WAITING] : states)].map(codeOf)
  const without = waits || states.includes("started") ? "state IS NULL OR " : ""
  return `(${without}state IN (${codes.join(", ")}))`
}

/** The states to look up in the indexes of states; `undefined` if jobs may match that are in none. `alone`: of any task and queue. */
const listedStates = (
  states: ReadonlyArray<State> | undefined,
  dead: boolean,
  alone: boolean,
): ReadonlyArray<State> | undefined => {
  const wanted = states ?? (dead ? (["failed", "cancelled", "expired"] as const) : undefined)
  return wanted?.every((state) => !WAITING.includes(state) && (alone || state !== "succeeded")) ? wanted : undefined
}

const sizeOf = ({ task }: FoundJob): number => (task?.content instanceof Uint8Array ? task.content.length : 0)

/** The actor in `actor.method`; a name without a dot is the actor. */
const actorOf = (task: string): string => {
  const dot = task.lastIndexOf(".")
  return dot < 0 ? task : task.slice(0, dot)
}

/** The names that rows of a task may have: the whole name, or only the actor that it names. */
const tasksOf = (task: string): ReadonlyArray<string> => [...new Set([task, actorOf(task)])]

/** The end of an id that is stored as bytes; text that names none matches no row. */
const bytesOf = (hex: string): Uint8Array => Buffer.from(hex, "hex")

const cursorOf = (cursor: string): number => {
  if (/^\d{1,15}$/.test(cursor)) return Number(cursor)
  throw new TransportError("invalid", `not a cursor of this transport: ${JSON.stringify(cursor.slice(0, 40))}`)
}
