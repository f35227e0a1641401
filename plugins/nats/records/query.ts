/**
 * Lists jobs, newest change first, from three sources: records; entries of records, if no job that is asked for has
 * succeeded; and tasks of jobs that have no record.
 */
import { isTerminal, type State } from "../../../runtime/protocol/state.ts"
import type { Index } from "../../../runtime/transport/known.ts"
import { matches, TransportError } from "../../../runtime/transport/mod.ts"
import type { FoundJob, FoundJobs, Query } from "../../../runtime/transport/optional.ts"
import type { ServerClock } from "../connection/server-clock.ts"
import { nativeIndex } from "../queue/native.ts"
import { type Names, SHARES } from "../streams/names.ts"
import { indexOf, type StoredMessage, type StreamBounds, type StreamReader } from "../streams/reader.ts"
import { type JobReader, knownOf, type Located } from "./read.ts"
import { classOf, type Records, recordIn, STALE_MS } from "./records.ts"
import { COUNTABLE, FilteredScan, type IsOver, type ReverseScan, WholeScan } from "./scan.ts"

type SourceKind = "tasks" | "records" | "entries"

interface Source {
  /** Name of the source in cursors. */
  readonly key: string
  readonly kind: SourceKind
  /** Class of the entries; empty for tasks and records. */
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
  /** Reads the index stream. */
  readonly index: StreamReader
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
    const bounds = boundsOf(this.#parts)
    const sources = this.#sources(query, bounds)
    const jobs: Array<FoundJob> = []
    const end = performance.now() + (query.budget ?? BUDGET_MS)
    const isOver = (ms = 0) => query.signal?.aborted === true || performance.now() + ms >= end
    // The newest message of each source is read whatever the budget: else the order would be lost, and a page with little
    // time would come no further.
    const peek = (isTasks: boolean) =>
      Promise.all(sources.filter(({ kind }) => (kind === "tasks") === isTasks).map(({ scan }) => scan.peek(never)))
    // Tasks are read first. A task that leaves its queue after that has a record by then, so its job is found at least once.
    await peek(true)
    // A record from here on is above what is scanned; on a page that goes on it may have been listed before.
    const isMixed = new Set(sources.map(({ kind }) => kind === "tasks")).size === 2
    const top = isMixed && query.after === undefined ? (await bounds.states()).last + 1 : Infinity
    await peek(false)
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
  async count(state: State, queue: string | undefined, max = Infinity): Promise<number | undefined> {
    // Jobs that succeeded have no entry, and deferred ones share their class with others.
    if (state === "succeeded" || !isTerminal(state)) return undefined
    const { names, index } = this.#parts
    const kinds = classesOf([state])
    const countAll = async (filters: ReadonlyArray<string>) =>
      (await Promise.all(filters.map((filter) => index.count(filter)))).reduce((sum, count) => sum + count, 0)
    const inShare = (share: number) => kinds.map((kind) => names.entriesIn(share, kind, queue))
    const isSmall = max === Infinity || (await index.bounds()).messages <= COUNTABLE
    const sample = isSmall ? 0 : await countAll(inShare(0))
    if (sample * SHARES <= COUNTABLE) return countAll(kinds.map((kind) => names.entries(kind, queue)))
    // The server looks at each entry that it counts, so that no more are counted than it takes to know that there are more.
    let total = sample
    for (let share = 1; share < SHARES && total <= max; share++) total += await countAll(inShare(share))
    return total
  }

  /** The sources that may hold jobs of this query. */
  #sources({ states, queue, task, dead, after }: Query, bounds: Bounds): ReadonlyArray<Source> {
    const { names, tasks, states: stored, index } = this.#parts
    const positions = positionsOf(after)
    const source = (kind: SourceKind, name: string, of: string, scan: (below: number) => ReverseScan): Source => {
      const key = `${kind}.${name}`
      return { key, kind, of, scan: scan(positions?.get(key) ?? Infinity) }
    }
    const asksFor = (state: State): boolean => !dead && (states === undefined || states.includes(state))
    const sources: Array<Source> = []
    if (asksFor("succeeded"))
      sources.push(source("records", "t", "", (below) => new WholeScan(stored, bounds.states, below)))
    else {
      for (const kind of dead ? ["dead"] : classesOf(states ?? [])) {
        for (const [at, reading] of (task === undefined ? [[]] : readingsOf(task)).entries()) {
          const sample = { filter: names.entriesIn(0, kind, queue, ...reading), share: SHARES }
          const filter = names.entries(kind, queue, ...reading)
          const scan = (below: number) => new FilteredScan(index, filter, bounds.index, below, { sample })
          sources.push(source("entries", `${kind}${at === 0 ? "" : at}`, kind, scan))
        }
      }
    }
    if (!asksFor("queued") && !asksFor("scheduled")) return sources
    // A task that is due is queued, even if the server has not moved it from its schedule yet.
    const kind = asksFor("queued") ? "*" : "s"
    if (kind === "*" && queue === undefined && task === undefined)
      return [...sources, source("tasks", "all", "", (below) => new WholeScan(tasks, bounds.tasks, below))]
    // What another program has published does not tell its task in the subject.
    const readings = task === undefined ? [[undefined]] : [...readingsOf(task), ["", ""]]
    for (const [at, [name, method]] of readings.entries()) {
      const sample = { filter: names.tasksLike(kind, queue, name, method, 0), share: SHARES }
      const filter = names.tasksLike(kind, queue, name, method)
      const scan = (below: number) => new FilteredScan(tasks, filter, bounds.tasks, below, { sample })
      sources.push(source("tasks", `${asksFor("queued") ? "any" : "s"}${at === 0 ? "" : at}`, "", scan))
    }
    return sources
  }

  /** The newest messages of all sources that may belong to jobs of the query. */
  async #next(
    sources: ReadonlyArray<Source>,
    query: Query,
    count: number,
    isOver: IsOver,
  ): Promise<ReadonlyArray<Candidate>> {
    const found: Array<Candidate> = []
    do {
      const next = await newest(sources, isOver)
      if (next === undefined) break
      next.source.scan.take()
      const { subject } = next.message
      const native = () => nativeIndex(next.message, this.#parts.names.parseTask(subject))
      const index = indexOf(next.message) ?? (next.source.kind === "tasks" ? native() : undefined)
      const id = this.#parts.names.idIn(subject)
      if (!id.toLowerCase().endsWith(query.idEnds ?? "")) continue
      if (index === undefined || fits(index, query, next.source.kind)) found.push({ ...next, index, id })
      // Messages that were read before the budget was over are used all the same.
    } while (found.length < count)
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
    if (stale.length > 0) void this.#parts.index.remove(stale).catch(() => undefined)
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

/** What the streams held when they were first looked at for a list. */
interface Bounds {
  readonly tasks: () => Promise<StreamBounds>
  readonly states: () => Promise<StreamBounds>
  readonly index: () => Promise<StreamBounds>
}

const boundsOf = ({ tasks, states, index }: JobListerParts): Bounds => {
  const once = (reader: StreamReader) => {
    let found: Promise<StreamBounds> | undefined
    return () => {
      found ??= reader.bounds()
      return found
    }
  }
  return { tasks: once(tasks), states: once(states), index: once(index) }
}

/** `undefined` at the end, and where the search is over before the newest is known. */
const newest = async (
  sources: ReadonlyArray<Source>,
  isOver: IsOver,
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

/** How a job of this task may be named: as it is, or as actor and method. */
const readingsOf = (task: string): ReadonlyArray<readonly [task: string, method?: string]> => {
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

const CURSOR = /^(?:(?:tasks|records|entries)\.[a-z]+\d?:\d{0,16}(?:,|$)){1,13}$/

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
