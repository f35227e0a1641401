/**
 * Lists jobs, newest change first, over the three places where they are: records, runs, tasks that wait. A job is listed
 * where its latest trace is: its record, else what its run said, else its task.
 */
import { isOfTask, type JobRecord } from "../../runtime/protocol/record.ts"
import { isTerminal, type State } from "../../runtime/protocol/state.ts"
import { type RecordPage, type RecordQuery, TransportError } from "../../runtime/transport.ts"
import type { Finder } from "./finder.ts"
import { readRecord } from "./journal.ts"
import type { Reader, StoredMessage } from "./reader.ts"
import { ReverseScan } from "./scan.ts"
import { classesOf, type Names } from "./subject.ts"
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
const PATIENCE = 2_000_000

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
    const spend = (messages: number): void => {
      spent += messages
    }
    while (records.length < query.limit) {
      if (spent > (records.length > 0 ? BUDGET : PATIENCE)) return { records, next: cursorOf(sources) }
      const candidates = await this.#next(sources, Math.min(query.limit - records.length, CHUNK), spend)
      if (candidates.length === 0) return { records }
      for (const record of await this.#records(candidates)) if (matches(record, query)) records.push(record)
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

  /** The newest messages of all sources together. */
  async #next(
    sources: ReadonlyArray<Source>,
    count: number,
    spend: (messages: number) => void,
  ): Promise<ReadonlyArray<Candidate>> {
    const found: Array<Candidate> = []
    while (found.length < count) {
      const next = await newest(sources, spend)
      if (next === undefined) break
      next.source.scan.take()
      const id = this.#idOf(next)
      if (id !== undefined) found.push({ ...next, id })
    }
    return found
  }

  #idOf({ source: { place }, message }: Newest): string | undefined {
    return place === "tasks" ? readWaiting(message, this.#parts.names)?.posting.id : readRecord(message).id
  }

  /** The jobs of these messages, without those that are listed elsewhere. */
  async #records(candidates: ReadonlyArray<Candidate>): Promise<ReadonlyArray<JobRecord>> {
    const { finder } = this.#parts
    const isOver = ({ source, message }: Candidate): boolean =>
      source.place === "records" && isTerminal(readRecord(message).state)
    const open = candidates.filter((candidate) => !isOver(candidate)).map(({ id }) => id)
    const traces = await finder.traces(open)
    const now = Date.now()
    return candidates.flatMap((candidate) => {
      const { id, source, message } = candidate
      const found = traces.get(id)
      if (found === undefined) {
        const over = view({ waiting: undefined, said: undefined, kept: keptOf(message) }, now)
        return over === undefined ? [] : [over]
      }
      const { waiting, said, kept } = found
      const latest = kept?.seq ?? (said === undefined ? waiting?.seq : undefined)
      const isHere =
        kept !== undefined ? source.place === "records" : source.place === (said === undefined ? "tasks" : "runs")
      if (!isHere || (latest !== undefined && latest !== message.seq)) return []
      const record = view(found, now)
      if (record === undefined) return []
      const { message: task, ...listed } = record
      return [kept?.record.message === undefined ? listed : record]
    })
  }
}

interface Newest {
  readonly source: Source
  readonly message: StoredMessage
}

interface Candidate extends Newest {
  readonly id: string
}

const newest = async (
  sources: ReadonlyArray<Source>,
  spend: (messages: number) => void,
): Promise<Newest | undefined> => {
  let found: Newest | undefined
  for (const source of sources) {
    const message = await source.scan.peek(spend)
    if (message !== undefined && (found === undefined || message.time > found.message.time)) found = { source, message }
  }
  return found
}

const keptOf = (message: StoredMessage) => ({ record: readRecord(message), seq: message.seq, subject: message.subject })

const matches = (record: JobRecord, query: RecordQuery): boolean =>
  record.tombstone !== true &&
  (query.states === undefined || query.states.includes(record.state)) &&
  (query.task === undefined || isOfTask(record, query.task)) &&
  (query.queue === undefined || query.queue === record.queue) &&
  (query.rootId === undefined || query.rootId === record.rootId) &&
  (query.parentId === undefined || query.parentId === record.parentId) &&
  (query.group === undefined || query.group === record.group) &&
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
