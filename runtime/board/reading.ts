/** Reads the jobs of a board in their order, one bucket at a time. */
import {
  BOARD_PRIORITIES,
  type BoardLine,
  type BoardPriority,
  boardPlaceOf,
  bucketsRetired,
  lineOf,
} from "../protocol/board.ts"
import type { Entry } from "../transport/store.ts"
import type { BoardEntries, Known } from "./entries.ts"

/** Begin after this job of an earlier reading. */
export interface ReadAfter {
  readonly priority: BoardPriority
  readonly sequence: number
}

const PAGE = 256

const bySequence = (a: Known, b: Known): number => a.record.sequence - b.record.sequence

/** What is known of a bucket that has a later one. */
interface Passed {
  newest?: number
  /** It was seen to be empty, and a look for the next job leaves it out until then, and the next time for twice as long. */
  emptyUntil?: number
  emptyMs?: number
  /** It was empty when no poster could use it any more: it stays in the index only for a job in an earlier bucket. */
  isOver?: boolean
}

/**
 * A look for the next job reads a bucket that was empty again after this time, or once a job in it is announced: only a late
 * poster still posts into it.
 */
const EMPTY_MS = 1_000

const noteEmpty = (passed: Passed, isEmpty: boolean): void => {
  const ms = isEmpty ? (passed.emptyMs ?? EMPTY_MS / 2) * 2 : EMPTY_MS / 2
  passed.emptyMs = ms
  passed.emptyUntil = isEmpty ? performance.now() + ms : Number.NEGATIVE_INFINITY
}

const passedAt = (known: Map<number, Passed>, bucket: number): Passed => {
  const found = known.get(bucket)
  if (found !== undefined) return found
  const passed: Passed = {}
  known.set(bucket, passed)
  return passed
}

export class BoardReader {
  readonly #entries: BoardEntries
  readonly #unreadable: (key: string) => void
  /** Buckets that have a later one. */
  readonly #passed = new Map<BoardPriority, Map<number, Passed>>()

  constructor(entries: BoardEntries, unreadable: (key: string) => void) {
    this.#entries = entries
    this.#unreadable = unreadable
  }

  /**
   * All jobs, by priority, then by sequence. An entry that cannot be read is skipped, and `unreadable` is called with its key.
   */
  async *jobs(after?: ReadAfter, unreadable: (key: string) => void = () => undefined): AsyncGenerator<Known> {
    for await (const part of this.parts(after, unreadable)) yield* part
  }

  /**
   * {@link jobs}, as many at a time as are read at a time. `quick`: without what a late poster has put into a bucket that was
   * empty a moment ago.
   */
  async *parts(
    after?: ReadAfter,
    unreadable: (key: string) => void = () => undefined,
    quick = false,
  ): AsyncGenerator<ReadonlyArray<Known>> {
    const index = await this.#entries.index()
    const from = after === undefined ? 0 : BOARD_PRIORITIES.indexOf(after.priority)
    for (const priority of BOARD_PRIORITIES.slice(from)) {
      const line = lineOf(index, priority)
      if (line === undefined) continue
      const above = after?.priority === priority ? after.sequence : -1
      for await (const part of this.#ofLine(priority, line, above, unreadable, quick))
        yield part.filter(({ record }) => record.sequence > above)
    }
  }

  async *#ofLine(
    priority: BoardPriority,
    { head, opened, restored = false }: BoardLine,
    above: number,
    unreadable: (key: string) => void,
    quick: boolean,
  ): AsyncGenerator<ReadonlyArray<Known>> {
    const decoded = (entries: ReadonlyArray<Entry>): ReadonlyArray<Known> =>
      entries.flatMap((entry) => {
        const known = this.#entries.decode(entry)
        if (known !== undefined) return [known]
        this.#unreadable(entry.key)
        unreadable(entry.key)
        return []
      })
    let pending: Array<Known> = restored ? [...decoded(await this.#restored(priority))] : []
    let empty = head
    // A fast board has hundreds of buckets that are empty and not closed yet, and each look passes them all.
    const now = performance.now()
    const closed = this.#entries.closedBelow(priority)
    const known = this.#passedOf(priority)
    for (let at = 0; at < opened.length; at++) {
      const bucket = head + at
      const next = opened[at + 1]
      const passed = next === undefined ? undefined : passedAt(known, bucket)
      const isClosed = passed !== undefined && bucket < closed
      if (passed?.isOver) {
        if (empty === bucket) empty = bucket + 1
        continue
      }
      if (passed?.newest !== undefined && passed.newest <= above) continue
      if (quick && passed?.emptyUntil !== undefined && now < passed.emptyUntil) continue
      const entries = await this.#entries.bucketOf(priority, bucket)
      if (passed !== undefined) noteEmpty(passed, entries.length === 0)
      const found = decoded(entries)
      if (isClosed && entries.length === 0) {
        passed.isOver = true
        if (empty === bucket) empty = bucket + 1
      }
      if (isClosed) passed.newest = Math.max(0, ...found.map(({ record }) => record.sequence))
      pending = [...pending, ...found].sort(bySequence)
      // A job that a late poster has put into an earlier bucket comes after some jobs of the next bucket.
      const later = next === undefined ? -1 : pending.findIndex(({ record }) => record.sequence > next)
      yield pending.splice(0, later < 0 ? pending.length : later)
    }
    if (empty > head) {
      for (let bucket = head; bucket < empty; bucket++) known.delete(bucket)
      await this.#entries.changeIndex((found) => bucketsRetired(found, priority, empty))
    }
  }

  /** A job with this id was posted. */
  heard(id: string): void {
    const place = boardPlaceOf(id)
    const passed = place && this.#passed.get(place.priority)?.get(place.bucket)
    if (passed !== undefined) noteEmpty(passed, false)
  }

  #passedOf(priority: BoardPriority): Map<number, Passed> {
    const known = this.#passed.get(priority) ?? new Map<number, Passed>()
    this.#passed.set(priority, known)
    return known
  }

  async #restored(priority: BoardPriority): Promise<ReadonlyArray<Entry>> {
    const entries: Array<Entry> = []
    for (let after: string | undefined; ; ) {
      const prefix = this.#entries.restored(priority)
      const range = { prefix, limit: PAGE, ...(after === undefined ? {} : { after }) }
      const page = await this.#entries.store.list(range)
      entries.push(...page)
      after = page.at(-1)?.key
      if (page.length < PAGE) return entries
    }
  }
}
