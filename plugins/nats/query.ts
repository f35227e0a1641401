/**
 * Lists jobs, newest change first, over the three places where they are: records, runs, tasks that wait. A job is listed
 * where its latest trace is: its record, else what its run said, else its task.
 */
import { isOfTask, type JobRecord } from "../../runtime/protocol/record.ts"
import { isTerminal, type State } from "../../runtime/protocol/state.ts"
import { type RecordPage, type RecordQuery, TransportError } from "../../runtime/transport/mod.ts"
import type { Finder } from "./finder.ts"
import { aged, readRecord } from "./journal.ts"
import { classesOf, type Names } from "./streams/names.ts"
import type { Reader, StoredMessage } from "./streams/reader.ts"
import { ReverseScan } from "./streams/scan.ts"
import { readWaiting, view } from "./views.ts"

type Place = "tasks" | "runs" | "records"

interface Source {
  /** Names it in cursors. */
  readonly key: string
  readonly place: Place
  readonly scan: ReverseScan
}

export interface QueryParts {
  readonly names: Names
  readonly finder: Finder
  readonly readers: Readonly<Record<Place, Reader>>
}

/** Messages that one page reads once it holds something; a page without a job goes on up to the second number. */
const BUDGET = 20_000
const PATIENCE = 1_000_000

/** Candidates that are looked at together. */
const CHUNK = 128

export class Queries {
  readonly #parts: QueryParts

  constructor(parts: QueryParts) {
    this.#parts = parts
  }

  async query(query: RecordQuery): Promise<RecordPage> {
    if (!(Number.isInteger(query.limit) && query.limit >= 1 && query.limit <= 1_000)) {
      throw new TransportError("invalid", "limit must be 1 to 1,000")
    }
    const sources = this.#sources(query)
    const records: Array<JobRecord> = []
    let spent = 0
    /** Counts what was read; whether more may be. */
    const spend = (messages: number): boolean => {
      spent += messages
      return spent < (records.length > 0 ? BUDGET : PATIENCE)
    }
    while (records.length < query.limit && spend(0)) {
      const candidates = await this.#next(sources, query, Math.min(query.limit - records.length, CHUNK), spend)
      for (const record of await this.#records(candidates)) if (matches(record, query)) records.push(record)
      if (candidates.length === 0) break
    }
    return (await newest(sources, spend)) === undefined ? { records } : { records, next: cursorOf(sources) }
  }

  /** Where jobs can be that the query asks for. */
  #sources({ states, queue, dead, after }: RecordQuery): ReadonlyArray<Source> {
    const { names, readers } = this.#parts
    const below = positionsOf(after)
    const source = (place: Place, name: string, filter: string): Source => {
      const key = `${place}.${name}`
      return { key, place, scan: new ReverseScan(readers[place], filter, below?.get(key) ?? Infinity) }
    }
    const asksFor = (...wanted: ReadonlyArray<State>): boolean =>
      !dead && (states === undefined || states.some((state) => wanted.includes(state)))
    const sources: Array<Source> = []
    const classes = dead ? (["dead"] as const) : states === undefined ? (["*"] as const) : classesOf(states)
    for (const each of classes) sources.push(source("records", each, names.recordsIn(each, queue)))
    if (asksFor("started")) sources.push(source("runs", "r", names.run("*")))
    // A task whose time has come is queued although the server has not moved it yet.
    if (asksFor("scheduled", "queued")) {
      const kinds = asksFor("queued") ? (["j", "s"] as const) : (["s"] as const)
      for (const kind of kinds) sources.push(source("tasks", kind, names.tasksIn(kind, queue)))
    }
    return sources
  }

  /**
   * The newest messages of all sources together that may be of jobs that the query asks for. What never changes about a
   * job is looked at right here, so that most of what does not match costs nothing but its reading.
   */
  async #next(
    sources: ReadonlyArray<Source>,
    query: RecordQuery,
    count: number,
    spend: (messages: number) => boolean,
  ): Promise<ReadonlyArray<Candidate>> {
    const found: Array<Candidate> = []
    while (found.length < count && spend(0)) {
      const next = await newest(sources, spend)
      if (next === undefined) break
      next.source.scan.take()
      const record = this.#recordIn(next)
      if (record !== undefined && isOf(record, query)) found.push({ ...next, record })
    }
    return found
  }

  #recordIn({ source: { place }, message }: Newest): JobRecord | undefined {
    if (place !== "tasks") return readRecord(message)
    const waiting = readWaiting(message, this.#parts.names)
    return view({ waiting, said: undefined, kept: undefined }, Date.now())
  }

  /** The jobs of these candidates, without those that are listed elsewhere. */
  async #records(candidates: ReadonlyArray<Candidate>): Promise<ReadonlyArray<JobRecord>> {
    const isOver = ({ source, record }: Candidate): boolean => source.place === "records" && isTerminal(record.state)
    const open = candidates.filter((candidate) => !isOver(candidate)).map(({ record }) => record.id)
    const traces = await this.#parts.finder.traces(open)
    const now = Date.now()
    return candidates.flatMap((candidate) => {
      const { record, source, message } = candidate
      const found = traces.get(record.id)
      if (found === undefined) return [aged(record, now)]
      const { waiting, said, kept } = found
      const latest = kept?.seq ?? (said === undefined ? waiting?.seq : undefined)
      const place: Place = kept !== undefined ? "records" : said === undefined ? "tasks" : "runs"
      if (source.place !== place || (latest !== undefined && latest !== message.seq)) return []
      const seen = view(found, now)
      if (seen === undefined) return []
      const { message: task, ...listed } = seen
      return [kept?.record.message === undefined ? listed : seen]
    })
  }
}

interface Newest {
  readonly source: Source
  readonly message: StoredMessage
}

interface Candidate extends Newest {
  /** What the message itself says. */
  readonly record: JobRecord
}

const newest = async (
  sources: ReadonlyArray<Source>,
  spend: (messages: number) => unknown,
): Promise<Newest | undefined> => {
  let found: Newest | undefined
  for (const source of sources) {
    const message = await source.scan.peek(spend)
    if (message !== undefined && (found === undefined || message.time > found.message.time)) found = { source, message }
  }
  return found
}

/** What never changes about a job. */
const isOf = (record: JobRecord, query: RecordQuery): boolean =>
  (query.task === undefined || isOfTask(record, query.task)) &&
  (query.rootId === undefined || query.rootId === record.rootId) &&
  (query.parentId === undefined || query.parentId === record.parentId) &&
  (query.group === undefined || query.group === record.group)

const matches = (record: JobRecord, query: RecordQuery): boolean =>
  record.tombstone !== true &&
  (query.states === undefined || query.states.includes(record.state)) &&
  (query.queue === undefined || query.queue === record.queue) &&
  (!query.dead || record.dead !== undefined)

/** Where each source goes on. */
const cursorOf = (sources: ReadonlyArray<Source>): string =>
  sources.map(({ key, scan }) => `${key}:${scan.position === Infinity ? "" : scan.position}`).join(",")

const CURSOR = /^(?:(?:tasks|runs|records)\.[a-z*]+:\d{0,16}(?:,|$)){1,12}$/

const positionsOf = (cursor: string | undefined): ReadonlyMap<string, number> | undefined => {
  if (cursor === undefined) return undefined
  if (!CURSOR.test(cursor)) {
    throw new TransportError("invalid", `not a cursor of this transport: ${JSON.stringify(cursor.slice(0, 40))}`)
  }
  return new Map(
    cursor.split(",").map((part) => {
      const [key = "", position = ""] = part.split(":")
      return [key, position === "" ? Infinity : Number(position)] as const
    }),
  )
}
