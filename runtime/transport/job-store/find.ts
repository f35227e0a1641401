/** Finds and lists jobs. Record, task and run note of a job are merged into one record. */
import { isOfTask, type JobRecord } from "../../protocol/record.ts"
import { isTerminal, STATES, type State } from "../../protocol/state.ts"
import { decoder, encoder } from "../../protocol/text.ts"
import type { Driver } from "../driver.ts"
import { TransportError, UnreadableRecord } from "../errors.ts"
import type { Known, QueuedTask } from "../known.ts"
import type { FoundJob, FoundJobs, Query } from "../optional.ts"
import type { BatchedDriver } from "./batching.ts"
import { indexOf } from "./codec.ts"
import { hash } from "./hash.ts"
import { NOTES, type Notes } from "./notes.ts"
import { COUNTED, type Found, type JobCount, type QueueStates, type RecordPage, type RecordQuery } from "./transport.ts"
import { type RunNote, viewOf } from "./view.ts"

/** What is known of one job. Fails with {@link UnreadableRecord}, and for a record of a newer version with `unsupported`. */
const readView = (id: string, known: Known, note: RunNote | undefined): JobRecord | undefined => {
  try {
    return viewOf(known, note, Date.now())
  } catch (cause) {
    const isUnreadable = cause instanceof TransportError && cause.reason === "internal"
    throw isUnreadable ? new UnreadableRecord(id, known.revision, cause) : cause
  }
}

/** Key of the name that a board is given, by which a cursor of another board is refused. */
const BOARD = "board-id"

export class Finder {
  readonly #driver: Driver
  readonly #batched: BatchedDriver
  readonly #notes: Notes
  #board: string | undefined

  constructor(driver: Driver, batched: BatchedDriver, notes: Notes) {
    this.#driver = driver
    this.#batched = batched
    this.#notes = notes
  }

  async find(id: string): Promise<Found | undefined> {
    const [known, [note]] = await Promise.all([this.#batched.read(id, "all"), this.#notes.of([id])])
    const record = known && readView(id, known, note)
    return record && { record, revision: known?.revision ?? "", ...takenOf(known?.task) }
  }

  /** The record of a job that has ended. The task and the note of a job no longer matter then, and are not read. */
  async ended(id: string): Promise<JobRecord | undefined> {
    const known = await this.#batched.read(id, "record")
    const record = known && readView(id, known, undefined)
    return record !== undefined && isTerminal(record.state) ? record : undefined
  }

  /**
   * A page of jobs. Where running jobs are asked for, the first pages have those that run without a stored record, since
   * the driver lists them as waiting. A cursor says which of the two lists it goes on in, and of which board and query it is.
   */
  async query(query: RecordQuery): Promise<RecordPage> {
    const { limit, after, budget = Number.POSITIVE_INFINITY } = query
    if (this.#driver.query === undefined) {
      throw new TransportError(
        "unsupported",
        `${this.#driver.name} cannot list jobs, so lists and bulk operations are not available`,
      )
    }
    if (!(limit >= 1 && limit <= 1_000)) throw new TransportError("invalid", `a page has 1 to 1,000 jobs, not ${limit}`)
    const [, part, tag, cursor = ""] = /^([nd])([0-9a-z]{1,14}):(.*)$/s.exec(after ?? "") ?? []
    if (after !== undefined && (part === undefined || tag !== (await this.#tagOf(query)))) {
      throw new TransportError("invalid", `not a cursor of this list: ${JSON.stringify(after.slice(0, 40))}`)
    }
    const search = new Search(query, performance.now() + budget)
    if (query.states?.includes("started") && part !== "d") {
      const next = await this.#running(search, cursor)
      if (next !== undefined) return search.page(`n${await this.#tagOf(query)}:${next}`)
    }
    const next = await this.#listed(search, part === "d" ? cursor : "")
    return search.page(next === undefined ? undefined : `d${await this.#tagOf(query)}:${next}`)
  }

  /** Differs between boards, and between queries that find other jobs. */
  async #tagOf({
    limit: _limit,
    after: _after,
    budget: _budget,
    signal: _signal,
    ...query
  }: RecordQuery): Promise<string> {
    const fields = Object.entries(query).filter(([, value]) => value !== undefined && value !== false)
    const filter = JSON.stringify(fields.sort(([a], [b]) => (a < b ? -1 : 1)))
    return hash(`${await this.#boardId()}\n${filter}`)
  }

  /** A random name that the board got with its first cursor. Empty where this process may not write one. */
  async #boardId(): Promise<string> {
    if (this.#board !== undefined) return this.#board
    const { store } = this.#driver
    const read = async () => {
      const [entry] = await store.get([BOARD])
      return entry && decoder.decode(entry.value)
    }
    const write = () => store.write([{ key: BOARD, expect: "", value: encoder.encode(crypto.randomUUID()) }])
    const id = (await read()) ?? (await write().then(read, () => undefined))
    this.#board = id
    return id ?? ""
  }

  async count(
    query: Omit<RecordQuery, "limit" | "after">,
    stop?: number,
    queueStates: () => Promise<ReadonlyArray<QueueStates>> = () => this.#queueStates(),
  ): Promise<JobCount> {
    const max = stop ?? COUNTED
    const { states = STATES, queue, budget = Number.POSITIVE_INFINITY, signal, ...others } = query
    const end = performance.now() + budget
    const { count, queues } = this.#driver
    const isByState = Object.values(others).every((field) => field === undefined || field === false)
    let total = 0
    // States that can only be counted by reading the jobs.
    let left: ReadonlyArray<State> = [...new Set(states)]
    const inQueues = IN_QUEUE.filter((state) => left.includes(state))
    if (isByState && queues !== undefined && inQueues.length > 0) {
      for (const each of await queueStates()) {
        if (queue !== undefined && each.queue !== queue) continue
        for (const state of inQueues) total += each[state]
      }
      left = left.filter((state) => !isInQueue(state))
    }
    if (isByState && count !== undefined) {
      const asked = left.filter((state) => !isInQueue(state))
      const counts = await Promise.all(asked.map((state) => count.call(this.#driver, state, queue, stop)))
      for (const each of counts) total += each ?? 0
      left = left.filter((state) => counts[asked.indexOf(state)] === undefined)
    }
    if (total > (stop ?? Number.POSITIVE_INFINITY)) return { count: max, more: true }
    if (left.length === 0) return { count: total }
    // Jobs that wait or run can only be told apart by reading them, and so can reasons.
    const isExact = others.reason === undefined && (states === STATES || !left.some(isInQueue))
    const wanted = states === STATES && left.length === STATES.length ? query : { ...query, states: left }
    let after: string | undefined
    let found = 0
    do {
      const limit = Math.min(max + 1 - found, COUNTED)
      const timed = { ...wanted, limit, budget: end - performance.now(), ...(after === undefined ? {} : { after }) }
      const page = isExact ? await this.#bare(timed) : await this.query(timed)
      found += "jobs" in page ? page.jobs.length : page.records.length
      after = page.next
    } while (after !== undefined && found <= max && !isOver(end, signal))
    if (found > max) return { count: total + max, more: true }
    return after === undefined ? { count: total + found } : { count: total + found, more: true }
  }

  async #queueStates(): Promise<ReadonlyArray<QueueStates>> {
    const depths = (await this.#driver.queues?.()) ?? []
    return depths.map((depth) => ({ ...depth, queued: depth.ready, started: depth.held }))
  }

  async #bare(query: RecordQuery): Promise<FoundJobs> {
    const { limit, after = "", budget = Number.POSITIVE_INFINITY } = query
    return (await this.#driver.query?.({ ...queryOf(query, limit, budget, after), bare: true })) ?? { jobs: [] }
  }

  /** Adds jobs that run and have no record yet, found by the run notes of their workers. Returns a cursor. */
  async #running(search: Search, after: string): Promise<string | undefined> {
    const { query, records } = search
    let last = after
    while (records.length < query.limit) {
      const limit = query.limit - records.length
      const range = { prefix: NOTES, limit, ...(last === "" ? {} : { after: last }) }
      const entries = await this.#driver.store.list(range)
      const found = await this.#views(entries.map(({ key }) => key.slice(NOTES.length)))
      search.scanned += entries.length
      records.push(
        ...found.flatMap(({ known, record }) => (known?.revision === "" && fits(record, query) ? [record] : [])),
      )
      last = entries.at(-1)?.key ?? last
      if (entries.length < limit) return undefined
      if (search.cut()) return last
    }
    return last
  }

  async #listed(search: Search, after: string): Promise<string | undefined> {
    const { query, records } = search
    let cursor = after
    // These jobs were listed by their run notes, on this page or on one before.
    const ran = new Set(records.map(({ id }) => id))
    const isListed = ({ revision, id }: FoundJob, { state }: JobRecord): boolean =>
      query.states?.includes("started") === true &&
      state === "started" &&
      revision === "" &&
      (query.after !== undefined || ran.has(id))
    while (records.length < query.limit) {
      const asked = queryOf(query, query.limit - records.length, search.left, cursor)
      const page = await this.#driver.query?.(asked)
      const notes = await this.#notes.of(page?.jobs.map(({ id }) => id) ?? [])
      const now = Date.now()
      search.scanned += page?.scanned ?? page?.jobs.length ?? 0
      for (const [at, known] of page?.jobs.entries() ?? []) {
        const record = readable(() => viewOf(known, notes[at], now))
        if (fits(record, query) && !isListed(known, record)) records.push(record)
      }
      if (page?.next === undefined) return undefined
      cursor = page.next
      if (search.cut(page.partial)) return cursor
    }
    return cursor
  }

  async #views(
    ids: ReadonlyArray<string>,
  ): Promise<ReadonlyArray<{ readonly known: Known | undefined; readonly record: JobRecord | undefined }>> {
    if (ids.length === 0) return []
    const [known, notes] = await Promise.all([this.#driver.read(ids, "all"), this.#notes.of(ids)])
    return ids.map((_, at) => {
      const each = known[at]
      return { known: each, record: each && viewOf(each, notes[at], Date.now()) }
    })
  }
}

const isOver = (end: number, signal: AbortSignal | undefined): boolean =>
  signal?.aborted === true || performance.now() >= end

const takenOf = (task: QueuedTask | undefined): Pick<Found, "taken"> => {
  if (task === undefined || (task.held !== true && task.deliveries === 0)) return {}
  return { taken: task.held === true ? "now" : "before" }
}

/** A page while it is searched for. */
class Search {
  readonly query: RecordQuery
  readonly records: Array<JobRecord> = []
  scanned = 0
  readonly #end: number
  #isCut = false

  constructor(query: RecordQuery, end: number) {
    this.query = query
    this.#end = end
  }

  /** Milliseconds of the budget that are left. */
  get left(): number {
    return this.#end - performance.now()
  }

  /** Whether the search ends here although the page is not full. */
  cut(wasPartial = false): boolean {
    const { records, query } = this
    this.#isCut = records.length < query.limit && (wasPartial || isOver(this.#end, query.signal))
    return this.#isCut
  }

  page(next: string | undefined): RecordPage {
    const { records, scanned } = this
    if (next === undefined) return { records, scanned }
    return { records, scanned, next, ...(this.#isCut ? { partial: true } : {}) }
  }
}

/** A record that cannot be read is left out of lists, so that it does not hide the others; to find it by its id fails. */
const readable = (view: () => JobRecord | undefined): JobRecord | undefined => {
  try {
    return view()
  } catch (thrown) {
    if (thrown instanceof TransportError) return undefined
    throw thrown
  }
}

/** States in which the task of a job is in a queue. */
const IN_QUEUE = ["queued", "scheduled", "started"] as const
const isInQueue = (state: State): boolean => IN_QUEUE.some((each) => each === state)

const queryOf = (query: RecordQuery, limit: number, budget: number, after: string): Query => {
  const { rootId, parentId, dead, reason, after: _after, budget: _budget, ...rest } = query
  return {
    ...rest,
    limit,
    ...(budget === Number.POSITIVE_INFINITY ? {} : { budget: Math.max(0, budget) }),
    // Drivers know which are dead, and not why.
    ...(dead || reason !== undefined ? { dead: true } : {}),
    ...(rootId === undefined ? {} : { root: rootId }),
    ...(parentId === undefined ? {} : { parent: parentId }),
    ...(after === "" ? {} : { after }),
  }
}

const FIELDS = ["queue", "rootId", "parentId", "group"] as const

/** Filters the answer, since a driver may return more than it was asked for. */
const fits = (record: JobRecord | undefined, query: RecordQuery): record is JobRecord => {
  if (record === undefined || record.tombstone) return false
  const { states, dead, reason, task, error, idEnds = "", since = 0, until = Number.POSITIVE_INFINITY } = query
  return (
    (task === undefined || isOfTask(record, task)) &&
    (states === undefined || states.includes(record.state)) &&
    (!dead || record.dead !== undefined) &&
    (reason === undefined || record.dead === reason) &&
    (error === undefined || indexOf(record).error === error) &&
    record.id.toLowerCase().endsWith(idEnds) &&
    record.submittedAt >= since &&
    record.submittedAt < until &&
    FIELDS.every((field) => query[field] === undefined || query[field] === record[field])
  )
}
