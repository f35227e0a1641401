/** Finds and lists jobs. Record, task and run note of a job are merged into one record. */
import { isOfTask, type JobRecord } from "../../protocol/record.ts"
import { isTerminal, STATES, type State } from "../../protocol/state.ts"
import type { Driver } from "../driver.ts"
import type { Known } from "../known.ts"
import { TransportError } from "../mod.ts"
import type { FoundJob, Query } from "../optional.ts"
import type { BatchedDriver } from "./batching.ts"
import { NOTES, type Notes } from "./notes.ts"
import { COUNTED, type Found, type JobCount, type RecordPage, type RecordQuery } from "./transport.ts"
import { viewOf } from "./view.ts"

export class Finder {
  readonly #driver: Driver
  readonly #batched: BatchedDriver
  readonly #notes: Notes

  constructor(driver: Driver, batched: BatchedDriver, notes: Notes) {
    this.#driver = driver
    this.#batched = batched
    this.#notes = notes
  }

  async find(id: string): Promise<Found | undefined> {
    const [known, [note]] = await Promise.all([this.#batched.read(id, "all"), this.#notes.of([id])])
    const record = known && viewOf(known, note, Date.now())
    return record && { record, revision: known?.revision ?? "" }
  }

  /** The record of a job that has ended. The task and the note of a job no longer matter then, and are not read. */
  async ended(id: string): Promise<JobRecord | undefined> {
    const known = await this.#batched.read(id, "record")
    const record = known && viewOf(known, undefined, Date.now())
    return record !== undefined && isTerminal(record.state) ? record : undefined
  }

  /**
   * A page of jobs. Where running jobs are asked for, the first pages have those that run without a stored record, since
   * the driver lists them as waiting. A cursor says which of the two lists it goes on in.
   */
  async query(query: RecordQuery): Promise<RecordPage> {
    const { limit, after = "" } = query
    if (this.#driver.query === undefined) {
      throw new TransportError(
        "unsupported",
        `${this.#driver.name} cannot list jobs: no page of them, and no command about many`,
      )
    }
    if (!(limit >= 1 && limit <= 1_000)) throw new TransportError("invalid", `a page holds 1 to 1,000, not ${limit}`)
    if (after !== "" && !/^[nd]:/.test(after)) {
      throw new TransportError("invalid", `not a cursor of this transport: ${JSON.stringify(after.slice(0, 40))}`)
    }
    const records: Array<JobRecord> = []
    if (query.states?.includes("started") && !after.startsWith("d:")) {
      const next = await this.#running(query, after.slice(2), records)
      if (next !== undefined) return { records, next: `n:${next}` }
    }
    const next = await this.#listed(query, after.startsWith("d:") ? after.slice(2) : "", records)
    return next === undefined ? { records } : { records, next: `d:${next}` }
  }

  async count(query: Omit<RecordQuery, "limit" | "after">): Promise<JobCount> {
    const { states = STATES, queue, ...others } = query
    const { count, queues } = this.#driver
    const isByState = Object.values(others).every((field) => field === undefined || field === false)
    let total = 0
    // States that can only be counted by reading the jobs.
    let left: ReadonlyArray<State> = [...new Set(states)]
    const inQueues = left.filter((state) => IN_QUEUE.has(state))
    if (isByState && queues !== undefined && inQueues.length > 0) {
      for (const depth of await queues.call(this.#driver)) {
        if (queue !== undefined && depth.queue !== queue) continue
        for (const state of inQueues) total += depth[IN_QUEUE.get(state) ?? "ready"]
      }
      left = left.filter((state) => !IN_QUEUE.has(state))
    }
    if (isByState && count !== undefined) {
      const asked = left.filter((state) => !IN_QUEUE.has(state))
      const counts = await Promise.all(asked.map((state) => count.call(this.#driver, state, queue)))
      for (const each of counts) total += each ?? 0
      left = left.filter((state) => counts[asked.indexOf(state)] === undefined)
    }
    if (left.length === 0) return { count: total }
    let after: string | undefined
    let read = 0
    do {
      const limit = Math.min(COUNTED + 1 - read, COUNTED)
      const page = await this.query({ ...query, states: left, limit, ...(after === undefined ? {} : { after }) })
      read += page.records.length
      after = page.next
    } while (after !== undefined && read <= COUNTED)
    return read > COUNTED ? { count: total + COUNTED, more: true } : { count: total + read }
  }

  /** Adds jobs that run and have no record yet, found by the run notes of their workers. Returns a cursor. */
  async #running(query: RecordQuery, after: string, into: Array<JobRecord>): Promise<string | undefined> {
    let last = after
    while (into.length < query.limit) {
      const limit = query.limit - into.length
      const range = { prefix: NOTES, limit, ...(last === "" ? {} : { after: last }) }
      const entries = await this.#driver.store.list(range)
      const found = await this.#views(entries.map(({ key }) => key.slice(NOTES.length)))
      into.push(
        ...found.flatMap(({ known, record }) => (known?.revision === "" && fits(record, query) ? [record] : [])),
      )
      last = entries.at(-1)?.key ?? last
      if (entries.length < limit) return undefined
    }
    return last
  }

  async #listed(query: RecordQuery, after: string, into: Array<JobRecord>): Promise<string | undefined> {
    let cursor = after
    // These jobs were listed by their run notes, on this page or on one before.
    const ran = new Set(into.map(({ id }) => id))
    const isListed = ({ revision, id }: FoundJob, { state }: JobRecord): boolean =>
      query.states?.includes("started") === true &&
      state === "started" &&
      revision === "" &&
      (query.after !== undefined || ran.has(id))
    while (into.length < query.limit) {
      const asked = queryOf(query, query.limit - into.length, cursor)
      const page = await this.#driver.query?.(asked)
      const notes = await this.#notes.of(page?.jobs.map(({ id }) => id) ?? [])
      const now = Date.now()
      for (const [at, known] of page?.jobs.entries() ?? []) {
        const record = readable(() => viewOf(known, notes[at], now))
        if (fits(record, query) && !isListed(known, record)) into.push(record)
      }
      if (page?.next === undefined) return undefined
      cursor = page.next
      if (page.partial) return cursor
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

/** A record that cannot be read is left out of lists, so that it does not hide the others; to find it by its id fails. */
const readable = (view: () => JobRecord | undefined): JobRecord | undefined => {
  try {
    return view()
  } catch (thrown) {
    if (thrown instanceof TransportError) return undefined
    throw thrown
  }
}

/** The number in a queue's depth that counts a state. */
const IN_QUEUE: ReadonlyMap<State, "ready" | "scheduled" | "held"> = new Map([
  ["queued", "ready"],
  ["scheduled", "scheduled"],
  ["started", "held"],
])

const queryOf = (
  { rootId, parentId, dead, after: _after, ...query }: RecordQuery,
  limit: number,
  after: string,
): Query => ({
  ...query,
  limit,
  ...(dead ? { dead } : {}),
  ...(rootId === undefined ? {} : { root: rootId }),
  ...(parentId === undefined ? {} : { parent: parentId }),
  ...(after === "" ? {} : { after }),
})

const FIELDS = ["queue", "rootId", "parentId", "group"] as const

/** Filters the answer, since a driver may return more than it was asked for. */
const fits = (record: JobRecord | undefined, { states, dead, task, ...query }: RecordQuery): record is JobRecord =>
  record !== undefined &&
  !record.tombstone &&
  (task === undefined || isOfTask(record, task)) &&
  (states === undefined || states.includes(record.state)) &&
  (!dead || record.dead !== undefined) &&
  FIELDS.every((field) => query[field] === undefined || query[field] === record[field])
