/** The keys of one board, and its entries: how they are read and decoded. */
import { type EntryChange, type StoredEntry, StoreEntry } from "../async/store-entry.ts"
import { CallboardError } from "../errors.ts"
import {
  BOARD_PRIORITIES,
  BoardIndex,
  type BoardPriority,
  type BoardRecord,
  boardPlaceOf,
  type Place,
  parseBoardRecord,
  tailOf,
} from "../protocol/board.ts"
import { decoder, encoder } from "../protocol/text.ts"
import type { Entry, Revision, Store } from "../transport/store.ts"

/** The job of an entry, with its sequence, and the revision that the next change expects. */
export interface Known {
  readonly key: string
  readonly record: BoardRecord & { readonly sequence: number }
  readonly revision: Revision
}

/**
 * How long a later bucket must be known before the earlier one is closed. A poster uses the index that it read last, and stores
 * its job within half of this time or reads again (`places.ts`). So a closed bucket gets no more jobs.
 */
export const RETIRE_MS = 10_000

const INDEX = "index"
/** Most jobs that one `list` of an unbounded part reads. */
const PAGE = 256

/** The entries of one board, below `board/<name>/`. */
export class BoardEntries {
  readonly store: Store
  readonly #prefix: string
  readonly #index: StoreEntry<BoardIndex>
  #now: Promise<number> | undefined
  /** The last bucket of each priority, as read at several times in the last {@link RETIRE_MS} and once before that. */
  readonly #tails = new Map<string, Array<{ readonly at: number; readonly tail: number }>>()

  constructor(store: Store, board: string) {
    this.store = store
    this.#prefix = `board/${board}/`
    this.#index = new StoreEntry(this.#prefix, BoardIndex)
  }

  /** Key of a job in a bucket. */
  slot({ priority, bucket, slot }: Place): string {
    return `${this.bucket(priority, bucket)}${slot.toString(36)}`
  }

  bucket(priority: BoardPriority, bucket: number): string {
    return `${this.#prefix}${BOARD_PRIORITIES.indexOf(priority)}/${bucket.toString(36)}/`
  }

  /** Where the jobs of a priority are that came back from the trash: their places may be taken by now. */
  restored(priority: BoardPriority, id = ""): string {
    return `${this.#prefix}${BOARD_PRIORITIES.indexOf(priority)}/restored/${id}`
  }

  trashed(id = ""): string {
    return `${this.#prefix}trash/${id}`
  }

  /** The time by the clock of the store; one reading serves all that ask meanwhile. */
  now(): Promise<number> {
    this.#now ??= this.store.now().finally(() => {
      this.#now = undefined
    })
    return this.#now
  }

  encode(record: BoardRecord): Uint8Array {
    return encoder.encode(JSON.stringify(record))
  }

  /** `undefined` for an entry that cannot be read. */
  decode({ key, value, revision }: Entry): Known | undefined {
    const record = parseBoardRecord(decoder.decode(value))
    if (record === undefined) return undefined
    return { key, record: { ...record, sequence: record.sequence ?? Number(revision) }, revision }
  }

  async index(): Promise<BoardIndex> {
    const index = this.#readable(await this.#index.get(this.store, INDEX))
    const at = performance.now()
    for (const [priority, line] of Object.entries(index)) {
      const seen = this.#tails.get(priority) ?? []
      const tail = tailOf(line)
      if (seen.at(-1)?.tail !== tail) seen.push({ at, tail })
      while ((seen[1]?.at ?? at) <= at - RETIRE_MS) seen.shift()
      this.#tails.set(priority, seen)
    }
    return index
  }

  /** No poster uses a bucket below this one any more, since it has been known for {@link RETIRE_MS}. */
  closedBelow(priority: BoardPriority): number {
    const before = performance.now() - RETIRE_MS
    let closed = 0
    for (const { at, tail } of this.#tails.get(priority) ?? []) {
      if (at > before) break
      closed = Math.max(closed, tail)
    }
    return closed
  }

  /** An index of a newer version is left alone: written over, it would lose the jobs that it leads to. */
  #readable(found: StoredEntry<BoardIndex> | undefined): BoardIndex {
    if (found === undefined) return {}
    if (found.value !== undefined) return found.value
    throw new CallboardError("internal", `the entry ${this.#index.key(INDEX)} cannot be read: a newer version wrote it`)
  }

  /** Changes the index. `to` returns nothing where there is nothing to change. Resolves with the index as it is then. */
  async changeIndex(to: (index: BoardIndex) => BoardIndex | undefined): Promise<BoardIndex> {
    let now: BoardIndex = {}
    const changed = await this.#index.change(this.store, INDEX, (found): EntryChange<BoardIndex> => {
      now = this.#readable(found)
      const next = to(now)
      if (next === undefined) return "keep"
      now = next
      return { value: next }
    })
    if (changed !== "conflict") return now
    throw new CallboardError("overloaded", "too many processes are opening buckets of this board: try again")
  }

  /** The job with this id, on the board. */
  async job(id: string): Promise<Known | undefined> {
    const place = boardPlaceOf(id)
    if (place === undefined) return undefined
    const entries = await this.store.get([this.slot(place), this.restored(place.priority, id)])
    return entries
      .flatMap((entry) => (entry === undefined ? [] : (this.decode(entry) ?? [])))
      .find(({ record }) => record.id === id)
  }

  /** All entries of a bucket. */
  bucketOf(priority: BoardPriority, bucket: number): Promise<ReadonlyArray<Entry>> {
    return this.store.list({ prefix: this.bucket(priority, bucket), limit: PAGE })
  }
}
