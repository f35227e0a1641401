/**
 * Tells which of the jobs that end may have others waiting for them, without asking the transport for each: a filter of
 * fixed size over all edges, kept by watching. It may name a job for which nobody waits; one for which somebody waits it
 * misses only where the transport lost the news, and then a sweep finds it.
 */
import type { Connection } from "../../connection/connection.ts"
import { StoreWatch } from "../../connection/store-watch.ts"
import type { Log } from "../../log/log.ts"
import { EDGE_PREFIX, type EdgeCursor, hashOf, parseEdge, readEdges } from "./edges.ts"

export interface EdgeWatchOptions {
  readonly connection: Connection
  readonly log: Log
  /** An edge to one of those that ended last has become known after its end. */
  readonly onLate: (parent: string) => void
  readonly signal: AbortSignal
}

/** 128 KiB: of a hundred thousand parents at a time one job in ten is asked for in vain. */
const BITS = 2 ** 20
/** News of an edge may come later than the end of a job that was quick: so many of those are remembered. */
const LAST_ENDED = 8_192
/** The filter forgets nothing, and news may be lost: it is made anew this often. */
const RENEW_MS = 600_000
const PAGE = 10_000

export class EdgeWatch {
  readonly #options: EdgeWatchOptions
  /** Ids of those that ended last, oldest first. */
  readonly #lastEnded = new Set<string>()
  readonly #watch: StoreWatch
  #bits = new Uint8Array(BITS / 8)
  /** Filled while all edges are being read. */
  #next: Uint8Array<ArrayBuffer> | undefined
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

  /** Whether nobody waits for anybody, as far as is known. */
  get isEmpty(): boolean {
    return this.#isEmpty
  }

  /** Whether any job has ended here. */
  get hasSeenEnds(): boolean {
    return this.#lastEnded.size > 0
  }

  /** Whether somebody may wait for a job that has ended just now. */
  ended(id: string): boolean {
    this.#lastEnded.add(id)
    const [oldest] = this.#lastEnded
    if (this.#lastEnded.size > LAST_ENDED && oldest !== undefined) this.#lastEnded.delete(oldest)
    return !this.#isEmpty && has(this.#bits, id)
  }

  /** Makes the filter anew, if it is time. `now` is of `performance.now()`. */
  renew(now: number): void {
    if (now - this.#readAt >= RENEW_MS) void this.#watch.refresh()
  }

  async #read(): Promise<void> {
    const { connection, signal } = this.#options
    this.#next = new Uint8Array(BITS / 8)
    for (let cursor: EdgeCursor | undefined = { shard: 0 }; cursor !== undefined && !signal.aborted; ) {
      const { entries, next } = await readEdges(connection.store, cursor, PAGE)
      for (const { key } of entries) this.#see(key)
      cursor = next
    }
    // What came by watching meanwhile is in it as well.
    this.#bits = this.#next
    this.#next = undefined
    this.#isEmpty = !this.#bits.some((bits) => bits !== 0)
    this.#readAt = performance.now()
  }

  #see(key: string): void {
    const parent = parseEdge(key)?.parent
    if (parent === undefined) return
    set(this.#bits, parent)
    if (this.#next !== undefined) set(this.#next, parent)
    this.#isEmpty = false
    if (this.#lastEnded.has(parent)) this.#options.onLate(parent)
  }
}

/** Where an id has its bit. */
const bitOf = (id: string): number => hashOf(id) % BITS

const has = (bits: Uint8Array, id: string): boolean => {
  const bit = bitOf(id)
  return ((bits[bit >> 3] ?? 0) & (1 << (bit & 7))) !== 0
}

const set = (bits: Uint8Array, id: string): void => {
  const bit = bitOf(id)
  bits[bit >> 3] = (bits[bit >> 3] ?? 0) | (1 << (bit & 7))
}
