/**
 * Lists jobs, newest change first, from three sources: records; entries of records, if no job that is asked for has
 * succeeded; and tasks of jobs that have no record.
 */
import { isTerminal, type State } from "../../../runtime/protocol/state.ts"
import type { Index } from "../../../runtime/transport/known.ts"
import { matches, TransportError } from "../../../runtime/transport/mod.ts"
import type { FoundJob, FoundJobs, Query } from "../../../runtime/transport/optional.ts"
import type { ServerClock } from "../connection/server-clock.ts"
import type { Names } from "../streams/names.ts"
import { indexOf, type StoredMessage, type StreamReader } from "../streams/reader.ts"
import { type JobReader, knownOf, type Located } from "./read.ts"
import { classOf, type Records, recordIn, STALE_MS } from "./records.ts"

type SourceKind = "tasks" | "records" | "entries"

interface Source {
  /** Its name in cursors. */
  readonly key: string
  readonly kind: SourceKind
  /** Of entries: their class. */
  readonly of: string
  readonly scan: ReverseScan
}

interface Candidate {
  readonly source: Source
  readonly message: StoredMessage
  readonly id: string
  readonly index: Index | undefined
}

export interface JobListerParts {
  readonly names: Names
  readonly jobReader: JobReader
  readonly records: Records
  readonly clock: ServerClock
  /** Reads the queue stream. */
  readonly tasks: StreamReader
  /** Reads the state stream. */
  readonly states: StreamReader
}

/** How long one page may take if the query has no budget. */
const BUDGET_MS = 5_000

/** Most candidates whose jobs are read together. */
const CHUNK = 128

export class JobLister {
  readonly #parts: JobListerParts

  constructor(parts: JobListerParts) {
    this.#parts = parts
  }

  async query(query: Query): Promise<FoundJobs> {
    const sources = this.#sources(query)
    const jobs: Array<FoundJob> = []
    const end = performance.now() + (query.budget ?? BUDGET_MS)
    const isOver = () => query.signal?.aborted === true || performance.now() >= end
    // The newest message of each source is read whatever the budget: else the order would be lost, and a page with little
    // time would come no further.
    const peek = (isTasks: boolean) =>
      Promise.all(sources.filter(({ kind }) => (kind === "tasks") === isTasks).map(({ scan }) => scan.peek(never)))
    // Tasks first: one that ends meanwhile has a record then, and would be found in neither otherwise.
    await peek(true)
    await peek(false)
    // A record from here on is above what is scanned; on a page that goes on it may have been listed before.
    const top = query.after === undefined ? topOf(sources) : Infinity
    let left = true
    do {
      const candidates = await this.#next(sources, query, Math.min(query.limit - jobs.length, CHUNK), isOver)
      jobs.push(...(await this.#resolve(candidates, top, query.bare === true)))
      left = (await newest(sources, isOver)) !== undefined || sources.some(({ scan }) => scan.position > 0)
    } while (left && jobs.length < query.limit && !isOver())
    const scanned = sources.reduce((sum, { scan }) => sum + scan.scanned, 0)
    if (!left) return { jobs, scanned }
    return { jobs, scanned, next: cursorOf(sources), ...(jobs.length < query.limit ? { partial: true } : {}) }
  }

  /**
   * Counted by the server, as entries. An entry that a process left behind when it died between two steps is counted until
   * a list meets it.
   */
  async count(state: State, queue: string | undefined): Promise<number | undefined> {
    // Jobs that succeeded have no entry, and deferred ones share their class with others.
    if (state === "succeeded" || !isTerminal(state)) return undefined
    const { names, states } = this.#parts
    const counts = await Promise.all(classesOf([state]).map((kind) => states.count(names.entries(kind, queue))))
    return counts.reduce((sum, count) => sum + count, 0)
  }

  /** The sources that may hold jobs of this query. */
  #sources({ states, queue, task, dead, after }: Query): ReadonlyArray<Source> {
    const { names, tasks, states: stored } = this.#parts
    const below = positionsOf(after)
    const source = (kind: SourceKind, name: string, filter: string, of = name): Source => {
      const key = `${kind}.${name}`
      const reader = kind === "tasks" ? tasks : stored
      return { key, kind, of, scan: new ReverseScan(reader, filter, below?.get(key) ?? Infinity) }
    }
    const asksFor = (state: State): boolean => !dead && (states === undefined || states.includes(state))
    const sources: Array<Source> = []
    // All messages of the stream, of which entries are left out: for a part of them the server looks through all subjects.
    if (asksFor("succeeded")) sources.push(source("records", "t", ">"))
    else {
      for (const each of dead ? ["dead"] : classesOf(states ?? [])) {
        for (const [at, reading] of readingsOf(task).entries())
          sources.push(source("entries", `${each}${at === 0 ? "" : at}`, names.entries(each, queue, ...reading), each))
      }
    }
    // A task that is due is queued, even if the server has not moved it from its schedule yet.
    if (asksFor("queued")) sources.push(source("tasks", "j", names.tasksIn("j", queue)))
    if (asksFor("queued") || asksFor("scheduled")) sources.push(source("tasks", "s", names.tasksIn("s", queue)))
    return sources
  }

  /** The newest messages of all sources that may belong to jobs of the query. */
  async #next(
    sources: ReadonlyArray<Source>,
    query: Query,
    count: number,
    isOver: () => boolean,
  ): Promise<ReadonlyArray<Candidate>> {
    const found: Array<Candidate> = []
    do {
      const next = await newest(sources, isOver)
      if (next === undefined) break
      next.source.scan.take()
      if (next.source.kind === "records" && !this.#parts.names.isRecord(next.message.subject)) continue
      const index = indexOf(next.message)
      const id = this.#parts.names.idIn(next.message.subject)
      if (!id.toLowerCase().endsWith(query.idEnds ?? "")) continue
      if (index === undefined || fits(index, query, next.source.kind)) found.push({ ...next, index, id })
    } while (found.length < count && !isOver())
    return found
  }

  /** The jobs of these candidates, without those that another source lists. */
  async #resolve(candidates: ReadonlyArray<Candidate>, top: number, bare: boolean): Promise<ReadonlyArray<FoundJob>> {
    // A job that has ended is in no other source; its entry is counted as it is.
    const isSure = ({ index }: Candidate) => bare && index !== undefined && isTerminal(index.state)
    const located = await this.#locate(candidates.filter((candidate) => !isSure(candidate)))
    const stale: Array<number> = []
    const jobs = candidates.flatMap((candidate): ReadonlyArray<FoundJob> => {
      const { source, message, id } = candidate
      if (isSure(candidate)) return [{ id, revision: "" }]
      const each = located.get(id) ?? { record: recordIn(message), task: undefined }
      const { record, task } = each
      const isHere =
        source.kind === "tasks"
          ? record === undefined
            ? task?.seq === message.seq
            : record.seq >= top && (task === undefined || task.seq === message.seq)
          : source.kind === "records"
            ? record?.seq === message.seq
            : record?.index !== undefined && source.of === classOf(record.index)
      const known = knownOf(each)
      if (isHere && known !== undefined) return [{ id, ...known }]
      if (source.kind === "entries" && message.time + STALE_MS < this.#parts.clock.now()) stale.push(message.seq)
      return []
    })
    if (stale.length > 0) void this.#parts.states.remove(stale).catch(() => undefined)
    return jobs
  }

  /**
   * Tasks and records of these jobs, by id. A record that is a candidate itself is not read again, and for an ended job
   * no task is searched.
   */
  async #locate(candidates: ReadonlyArray<Candidate>): Promise<ReadonlyMap<string, Located>> {
    const open: Array<string> = []
    const over: Array<string> = []
    for (const { id, index, source } of candidates) {
      if (index === undefined || !isTerminal(index.state)) open.push(id)
      else if (source.kind === "entries") over.push(id)
    }
    const { jobReader, records } = this.#parts
    const [located, ended] = await Promise.all([jobReader.locate(open), records.read(over)])
    return new Map([...located, ...over.map((id) => [id, { record: ended.get(id), task: undefined }] as const)])
  }
}

/** The sequence from which on records were stored after these sources were looked at. */
const topOf = (sources: ReadonlyArray<Source>): number =>
  Math.min(...sources.map(({ kind, scan }) => (kind === "tasks" ? Infinity : scan.top)))

/** `undefined` at the end, and where the search is over before the newest is known. */
const newest = async (
  sources: ReadonlyArray<Source>,
  isOver: () => boolean,
): Promise<{ readonly source: Source; readonly message: StoredMessage } | undefined> => {
  let found: { readonly source: Source; readonly message: StoredMessage } | undefined
  for (const source of sources) {
    const message = await source.scan.peek(isOver)
    if (message === undefined && source.scan.position > 0) return undefined
    if (message !== undefined && (found === undefined || isNewer(message, found.message))) found = { source, message }
  }
  return found
}

const never = (): boolean => false

/** How the entry of a job of this task may name it: as it is, or as actor and method. Without a task: in any way. */
const readingsOf = (task: string | undefined): ReadonlyArray<readonly [task?: string, method?: string]> => {
  if (task === undefined) return [[]]
  const dot = task.lastIndexOf(".")
  return dot < 0 ? [[task]] : [[task], [task.slice(0, dot), task.slice(dot + 1)]]
}

/** Times are whole milliseconds; within a stream the sequence decides between equal ones. */
const isNewer = (one: StoredMessage, other: StoredMessage): boolean =>
  one.time > other.time || (one.time === other.time && one.seq > other.seq)

/** The classes of entries for records in these states. */
const classesOf = (states: ReadonlyArray<State>): ReadonlyArray<string> => {
  const classes = states.flatMap((state) => (state === "failed" ? ["failed", "dead"] : [classOf({ state }) ?? ""]))
  return [...new Set(classes)]
}

/** The index of a task only says what the task was posted as; the state of its record may differ. */
const fits = (index: Index, { states, ...query }: Query, kind: SourceKind): boolean =>
  matches(index, kind === "tasks" || states === undefined ? query : { ...query, states })

/** The positions of all sources as a cursor. */
const cursorOf = (sources: ReadonlyArray<Source>): string =>
  sources.map(({ key, scan }) => `${key}:${scan.position === Infinity ? "" : scan.position}`).join(",")

const CURSOR = /^(?:(?:tasks|records|entries)\.[a-z]+\d?:\d{0,16}(?:,|$)){1,12}$/

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

// ── reading a stream backwards ───────────────────────────────────────────────────────────────────────────────────────

/** Most messages per answer; the first window has as many sequences, so that it fits into one answer. */
const BATCH = 256

/** Factor by which a window grows after it was nearly empty, or shrinks when it was too full. */
const WIDEN = 8

/**
 * Reads a stream from its end, newest message first. The server only reads upwards, so that windows of sequences are
 * read from the top down: narrow ones where messages are dense, wide ones where they are sparse.
 */
export class ReverseScan {
  readonly #reader: StreamReader
  readonly #filter: string
  #first = 1
  /** All sequences from this one on were read. */
  #below: number
  #width = BATCH
  /** Messages that were read and not taken, the next one last. */
  #ready: Array<StoredMessage> = []
  #bounded = false
  /** How many messages were read. */
  scanned = 0
  /** The sequence behind the last one that is scanned. */
  top = Infinity

  /** Begins below the sequence `below`; `Infinity` is the end of the stream. */
  constructor(reader: StreamReader, filter: string, below: number) {
    this.#reader = reader
    this.#filter = filter
    this.#below = below
  }

  /** The `below` for a scan that goes on here; 0 if there are no more messages. */
  get position(): number {
    const next = this.#ready[this.#ready.length - 1]
    if (next !== undefined) return next.seq + 1
    return this.#bounded && this.#below <= this.#first ? 0 : this.#below
  }

  /** The next message, which stays; `undefined` at the end of the stream, or where the search is over before it is read. */
  async peek(isOver: () => boolean): Promise<StoredMessage | undefined> {
    if (!this.#bounded && this.#below > 0) {
      const { first, last } = await this.#reader.bounds()
      this.#first = Math.max(first, 1)
      this.#below = Math.min(this.#below, last + 1)
      this.top = this.#below
    }
    this.#bounded = true
    while (this.#ready.length === 0 && this.#below > this.#first && !isOver()) await this.#read()
    return this.#ready[this.#ready.length - 1]
  }

  take(): void {
    this.#ready.pop()
  }

  async #read(): Promise<void> {
    const low = Math.max(this.#first, this.#below - this.#width)
    const { messages, more } = await this.#reader.from(low, this.#filter, BATCH)
    this.scanned += messages.length
    const inside = messages.filter(({ seq }) => seq < this.#below)
    const last = messages[messages.length - 1]?.seq ?? Infinity
    // The answer does not reach the top of the window, which must come first: the window is read again, narrower.
    if (more > 0 && last < this.#below - 1 && this.#width > 1) {
      this.#width = Math.max(Math.floor(Math.min(this.#width, this.#below - low) / WIDEN), 1)
      return
    }
    this.#below = low
    this.#ready = inside
    if (inside.length < BATCH / WIDEN) this.#width *= WIDEN
  }
}
