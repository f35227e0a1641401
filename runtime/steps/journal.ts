/**
 * The journal of one run of a job, as the delivery that has the job writes it. Only one write is under way at a time.
 */

import { encoder } from "../protocol/text.ts"
import { TransportError } from "../transport/errors.ts"
import type { Revision, Store } from "../transport/store.ts"
import { type Folded, fold } from "./fold.ts"
import {
  decodePage,
  EMPTY,
  type Entry,
  encodePage,
  fill,
  journalPrefix,
  LARGE,
  OtherVersion,
  pageKey,
  type Tail,
  valueKey,
  type Waiting,
  waiting,
  writeOutcome,
} from "./page.ts"
import { copyKept, type KeptRuns, keepAll, keepKeys, readJournal, readValue, ttlOf } from "./pages.ts"

/**
 * Why a delivery may no longer write its journal: a later delivery has opened it, it was ended while the store could not be
 * reached, or a worker of a later version of Callboard has written it.
 */
export type Closed = "superseded" | "lost" | "later-version"

export interface JournalOptions {
  readonly store: Store
  readonly id: string
  readonly run: number
  /** If the job was run again by hand. */
  readonly kept?: KeptRuns | undefined
  /** Name of the writer, an id; no two deliveries or processes have the same one. */
  readonly by: string
  readonly fence: string
  /**
   * Waits for a store that cannot be reached, this many milliseconds at most. False: the delivery was ended meanwhile, and
   * needs its journal no more.
   */
  readonly untilReachable: (ms: number) => Promise<boolean>
  /** Called once, before any further write is refused. */
  readonly onClosed: (why: Closed) => void
}

const FIRST_WAIT_MS = 100
const MAX_WAIT_MS = 5_000
/** How often opening is tried: another delivery may write in between, but hardly so many times in a row. */
const OPENINGS = 10

interface Queued extends Waiting {
  readonly resolve: () => void
  readonly reject: (cause: unknown) => void
}

export class Journal {
  closed: Closed | undefined
  readonly #options: JournalOptions
  readonly #prefix: string
  readonly #entries: Array<Entry> = []
  #folded: Folded | undefined
  #tail: Tail = EMPTY
  #queue: Array<Queued> = []
  #writing = false
  #writes = 0
  #values = 0
  #opened = false
  /** Bytes of all pages and large results. */
  #bytes = 0

  constructor(options: JournalOptions) {
    this.#options = options
    this.#prefix = journalPrefix(options.id, options.run)
  }

  get entries(): ReadonlyArray<Entry> {
    return this.#entries
  }

  get bytes(): number {
    return this.#bytes
  }

  get folded(): Folded {
    this.#folded ??= fold(this.#entries)
    return this.#folded
  }

  /**
   * Opens the journal for this delivery: from then on every write of an earlier delivery is refused. The outcomes of waits that
   * `arrived` finds are stored by the same write. Afterwards the journal may be closed. Fails for a page that cannot be read.
   * The very first delivery of a job need not open it: its first write creates the first page, which is refused where another
   * delivery has created it.
   */
  async open(
    at: number,
    claims: number,
    arrived: (folded: Folded) => Promise<ReadonlyArray<Entry>> = async () => [],
  ): Promise<void> {
    const { store, id, kept, fence, by } = this.#options
    this.#opened = true
    for (let tried = 0; tried < OPENINGS; tried++) {
      const answer = await this.#reaching(async () => {
        let read = await readJournal(store, this.#prefix)
        if (read.entries.length === 0 && kept !== undefined) {
          await copyKept(store, id, kept, this.#prefix, by)
          read = await readJournal(store, this.#prefix)
        }
        this.#entries.splice(0, this.#entries.length, ...read.entries)
        this.#folded = undefined
        this.#tail = read.tail
        this.#bytes = read.bytes
        if (this.folded.opened > fence) return undefined
        const outcomes = await Promise.all((await arrived(this.folded)).map((entry) => this.#small(entry)))
        return this.#writeAll([{ kind: "open", fence, at, claims } as const, ...outcomes].map(waiting))
      }).catch(closedBy)
      if (answer === undefined) return this.close("superseded")
      if (answer === "lost" || answer === "later-version") return this.close(answer)
      if (answer !== "superseded") return
    }
    this.close("lost")
  }

  /**
   * Resolves when the entry is stored; a large result is stored before it, under a key of its own. Never settles once
   * the journal is closed. Fails for what the store can never take.
   */
  append(entry: Entry): Promise<void> {
    const { text } = waiting(entry)
    if (entry.kind === "ok" && text.length > LARGE && entry.large === undefined)
      return this.#small(entry).then((small) => this.#enqueue(waiting(small)))
    return this.#enqueue({ entry, text })
  }

  /** The entry, with its result under a key of its own if that is large. */
  async #small(entry: Entry): Promise<Entry> {
    if (entry.kind !== "ok" || entry.large !== undefined || entry.value === undefined) return entry
    const { value, ...rest } = entry
    const large = JSON.stringify(value)
    return large.length > LARGE ? { ...rest, ...(await this.#putValue(large)) } : entry
  }

  #enqueue({ entry, text }: Waiting): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.closed !== undefined) return
      this.#queue.push({ entry, text, resolve, reject })
      if (!this.#writing) void this.#drain()
    })
  }

  async #putValue(text: string): Promise<{ readonly large: string; readonly bytes: number }> {
    const large = valueKey(this.#options.by, ++this.#values)
    const value = encoder.encode(text)
    // No other write has this key, so that it may be written twice.
    const stored = await this.#reaching(() => this.#options.store.write([{ key: this.#prefix + large, value }]))
    if (stored === "lost") return this.#lost()
    this.#bytes += value.length
    return { large, bytes: value.length }
  }

  /** The JSON of a large result. Never settles once the journal is closed. Fails where it is no longer stored. */
  async value(name: string): Promise<string> {
    const read = await this.#reaching(async () => ({ text: await readValue(this.#options.store, this.#prefix, name) }))
    return read === "lost" ? this.#lost() : read.text
  }

  #lost(): Promise<never> {
    this.close("lost")
    return NEVER
  }

  /** Tries again for as long as the store cannot be reached. `lost`: the delivery was ended meanwhile. */
  async #reaching<T>(work: () => Promise<T>): Promise<T | "lost"> {
    for (let wait = FIRST_WAIT_MS; ; wait = longer(wait)) {
      try {
        return await work()
      } catch (cause) {
        if (!isAway(cause)) throw cause
      }
      if (!(await this.#options.untilReachable(wait))) return "lost"
    }
  }

  /** Gives the journal of an ended job its time to live. Fails as the store does. */
  async keep(keepMs: number): Promise<void> {
    const { store, by } = this.#options
    const { page, revision, text } = this.#tail
    if (this.#entries.length === 0) return
    // An earlier delivery may have left results that no entry names: only a list finds them.
    if (this.#opened) return keepAll(store, this.#prefix, keepMs)
    if (page > 0 || this.#values > 0) {
      const pages = Array.from({ length: page + 1 }, (_, at) => pageKey(this.#prefix, at))
      const values = Array.from({ length: this.#values }, (_, at) => this.#prefix + valueKey(by, at + 1))
      return keepKeys(store, [...pages, ...values], keepMs)
    }
    const value = encodePage({ by, n: this.#writes, ended: true }, text)
    await store.write([{ key: pageKey(this.#prefix, page), value, expect: revision, ...ttlOf(keepMs) }])
  }

  close(why: Closed): void {
    if (this.closed !== undefined) return
    this.closed = why
    this.#queue = []
    this.#options.onClosed(why)
  }

  async #drain(): Promise<void> {
    this.#writing = true
    // All entries that are appended in the same turn go with this write.
    await Promise.resolve()
    while (this.#queue.length > 0 && this.closed === undefined) {
      const batch = this.#queue
      try {
        const taken = await this.#write(batch)
        if (typeof taken === "string") this.close(taken)
        else for (const { resolve } of this.#queue.splice(0, taken)) resolve()
      } catch (cause) {
        for (const { reject } of this.#queue.splice(0)) reject(cause)
      }
    }
    this.#writing = false
  }

  async #writeAll(entries: ReadonlyArray<Waiting>): Promise<number | Closed> {
    let written = 0
    while (written < entries.length) {
      const answer = await this.#write(entries.slice(written))
      if (typeof answer === "string") return answer
      written += answer
    }
    return written
  }

  /**
   * Writes as many entries as the last page takes. Resolves with their number, or with why the journal is to be closed.
   */
  async #write(entries: ReadonlyArray<Waiting>): Promise<number | Closed> {
    const { by } = this.#options
    const { page } = this.#tail
    const { count, text, taken, sealed } = fill(this.#tail, entries)
    const n = ++this.#writes
    const revision = await this.#put(encodePage({ by, n, sealed }, text), n)
    if (typeof revision === "object") return revision.closed
    for (const { entry } of entries.length === taken ? entries : entries.slice(0, taken)) this.#entries.push(entry)
    this.#folded = undefined
    this.#bytes += text.length - this.#tail.text.length
    this.#tail = sealed ? { ...EMPTY, page: page + 1 } : { page, revision, count, text }
    return taken
  }

  /**
   * Stores the last page. Where the write was refused, or its answer was lost, the stored page decides. Fails for a page that
   * the store can never take.
   */
  async #put(value: Uint8Array, n: number): Promise<Revision | { readonly closed: Closed }> {
    const { store, by } = this.#options
    const key = pageKey(this.#prefix, this.#tail.page)
    let expect = this.#tail.revision
    for (let wait = FIRST_WAIT_MS; ; wait = longer(wait)) {
      try {
        const written = await store.write([{ key, value, expect }])
        const [revision = ""] = written === "conflict" ? [] : written
        if (written !== "conflict") return revision
      } catch (cause) {
        if (!isAway(cause)) throw cause
      }
      try {
        const [found] = await store.get([key])
        const outcome = writeOutcome(found && decodePage(found.value), { by, n, revision: expect })
        if (outcome === "written") return found?.revision ?? ""
        if (outcome === "superseded") return { closed: "superseded" }
        expect = found?.revision ?? ""
      } catch (cause) {
        if (!(cause instanceof TransportError)) return { closed: closedBy(cause) }
      }
      if (!(await this.#options.untilReachable(wait))) return { closed: "lost" }
    }
  }
}

const closedBy = (cause: unknown): Closed => {
  if (cause instanceof OtherVersion) return "later-version"
  throw cause
}

const NEVER = new Promise<never>(() => undefined)

/** Whether the store could not answer, and may answer the next time. */
const isAway = (cause: unknown): boolean =>
  cause instanceof TransportError && (cause.reason === "unavailable" || cause.reason === "internal")

const longer = (waitMs: number): number => Math.min(MAX_WAIT_MS, waitMs * 2)
