/**
 * Says whether an ended job may have dependents, without a question to the transport per job: a filter of fixed size (a Bloom
 * filter with one hash) over all edges, kept up to date by a watch. It may say yes for a job without dependents. It says no
 * for a job with dependents only where the watch missed a change, and then the sweep releases them.
 */
import type { Connection } from "../../connection/connection.ts"
import { StoreWatch } from "../../connection/store-watch.ts"
import type { Log } from "../../log/log.ts"
import { EDGE_PREFIX, type EdgeCursor, hashOf, parseEdge, readEdges } from "./edges.ts"

export interface EdgeWatchOptions {
  readonly connection: Connection
  readonly log: Log
  /** Called where the edge to a job becomes known only after that job has ended. */
  readonly onLate: (parent: string) => void
  readonly signal: AbortSignal
}

/** 128 KiB: with 100,000 parents one job in ten is looked up in vain. */
const BITS = 2 ** 20
/** How many of the last ended jobs are remembered at least: the watch may bring an edge later than the end of a quick parent. */
const LAST_ENDED = 4_096
/** The filter is built anew this often, because bits are never removed from it and the watch may miss changes. */
const RENEW_MS = 600_000
const PAGE = 10_000

export class EdgeWatch {
  readonly #options: EdgeWatchOptions
  /** Ids of the jobs that ended last. */
  #lastEnded = new Set<string>()
  /** Ids of the jobs that ended before those: forgotten all at once, which costs less than one by one. */
  #endedBefore: ReadonlySet<string> = new Set()
  readonly #watch: StoreWatch
  #bits = new Uint8Array(BITS / 8)
  /** Filled while all edges are being read. */
  #next: Uint8Array<ArrayBuffer> | undefined
  /** Whether no edge has been seen since that reading began. */
  #isNextEmpty = true
  #isEmpty = true
  #readAt = 0

  constructor(options: EdgeWatchOptions) {
    this.#options = options
    const { connection, log, signal } = options
    this.#watch = new StoreWatch({
      connection,
      prefix: EDGE_PREFIX,
      log,
      onChange: ({ key, value }) => value !== undefined && this.#see(key),
      read: () => this.#read(),
      signal,
    })
    void this.#watch.refresh()
  }

  /** Resolves once all edges were read; never rejects. Until the transport can be reached it waits. */
  get ready(): Promise<void> {
    return this.#watch.ready
  }

  /** Whether no job waits for another, as far as is known. */
  get isEmpty(): boolean {
    return this.#isEmpty
  }

  /** Whether any job has ended here. */
  get hasSeenEnds(): boolean {
    return this.#lastEnded.size > 0
  }

  /** Notes that a job has ended. Returns whether another job may wait for it. */
  ended(id: string): boolean {
    if (this.#lastEnded.size >= LAST_ENDED) {
      this.#endedBefore = this.#lastEnded
      this.#lastEnded = new Set()
    }
    this.#lastEnded.add(id)
    return !this.#isEmpty && has(this.#bits, id)
  }

  /** Builds the filter anew, if it is time. `now` is of `performance.now()`. */
  renew(now: number): void {
    if (now - this.#readAt >= RENEW_MS) void this.#watch.refresh()
  }

  async #read(): Promise<void> {
    const { connection, signal } = this.#options
    this.#next = new Uint8Array(BITS / 8)
    this.#isNextEmpty = true
    for (let cursor: EdgeCursor | undefined = { shard: 0 }; cursor !== undefined && !signal.aborted; ) {
      const { entries, next } = await readEdges(connection.store, cursor, PAGE)
      for (const { key } of entries) this.#see(key)
      cursor = next
    }
    // The watch has added its changes to the new filter as well.
    this.#bits = this.#next
    this.#next = undefined
    this.#isEmpty = this.#isNextEmpty
    this.#readAt = performance.now()
  }

  #see(key: string): void {
    const parent = parseEdge(key)?.parent
    if (parent === undefined) return
    set(this.#bits, parent)
    if (this.#next !== undefined) set(this.#next, parent)
    this.#isNextEmpty = false
    this.#isEmpty = false
    if (this.#lastEnded.has(parent) || this.#endedBefore.has(parent)) this.#options.onLate(parent)
  }
}

/** Number of the bit that stands for an id. */
const bitOf = (id: string): number => hashOf(id) % BITS

const has = (bits: Uint8Array, id: string): boolean => {
  const bit = bitOf(id)
  return ((bits[bit >> 3] ?? 0) & (1 << (bit & 7))) !== 0
}

const set = (bits: Uint8Array, id: string): void => {
  const bit = bitOf(id)
  bits[bit >> 3] = (bits[bit >> 3] ?? 0) | (1 << (bit & 7))
}
