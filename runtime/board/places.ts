/**
 * Where new jobs go. A bucket has 256 places, and a job is posted by creating the entry of a free one, so that no bucket
 * holds more and no poster needs a counter. A bucket that is full is followed by a new one, which is written down in the
 * board's index.
 *
 * A poster goes by the index as it has read it. Readers drop a bucket from the index only when it was empty ten seconds
 * after they first saw a later one ({@link RETIRE_MS}). So a job that was stored within five seconds of the reading of the
 * index ({@link TRUSTED_MS}) is seen; one that took longer is checked, and posted again where its bucket is not the last one.
 */
import { type BoardPriority, BUCKET_SIZE, bucketOpened, lineOf, type Place, tailOf } from "../protocol/board.ts"
import { type BoardEntries, RETIRE_MS } from "./entries.ts"

/** How old the reading of the index may be when a job is stored by it. */
const TRUSTED_MS = RETIRE_MS / 2
/** The index is read again after this time. */
const STALE_MS = 2_000
/** A bucket with fewer free places counts as full: several posters would meet in them. */
const FEW = 32
/** Number of places of a bucket that are looked at before the whole bucket is read. */
const SAMPLE = 8
/** Number of taken places in a row after which the bucket is read again, since other posters use it too. */
const MISSES = 2

/** A moment by both clocks: a machine that slept may have stopped the monotonic one, and the other one may be set. */
interface Moment {
  readonly monotonic: number
  readonly wall: number
}

const moment = (): Moment => ({ monotonic: performance.now(), wall: Date.now() })
const since = ({ monotonic, wall }: Moment): number => Math.max(performance.now() - monotonic, Date.now() - wall)

interface Tail {
  readonly bucket: number
  /** The prefix of the keys of all entries in this bucket; no other key has it. */
  readonly beginning: string
  readonly free: Array<number>
  /** Places into which this process is posting: they are free in the store, and not to be offered again. */
  readonly underWay: Set<number>
  /** When this process began to read the index that names this bucket as the last one. */
  readAt: Moment
  misses: number
  /** Places in which this poster has stored jobs, and the highest sequence in the bucket, as far as is known here. */
  readonly stored: Array<number>
  newest: number
}

/** A place to post into, and when it was known to be in the last bucket. */
export interface Offer extends Place {
  /** The key of the entry. */
  readonly key: string
  readonly readAt: Moment
}

/**
 * Places in the order in which they are offered, the last one first: one after the other, since a store writes neighbours
 * together, from a random one on, so that several posters seldom meet.
 */
const inTurn = (places: ReadonlyArray<number>): Array<number> => {
  const first = Math.floor(Math.random() * places.length)
  return [...places.slice(first), ...places.slice(0, first)].reverse()
}

/** The place of an entry in its bucket. */
const slotOf = (key: string, beginning: string): number => parseInt(key.slice(beginning.length), 36)

const ALL = Array.from({ length: BUCKET_SIZE }, (_, slot) => slot)

export class Places {
  readonly #entries: BoardEntries
  readonly #tails = new Map<BoardPriority, Tail>()
  readonly #filling = new Map<BoardPriority, Promise<void>>()

  constructor(entries: BoardEntries) {
    this.#entries = entries
  }

  /**
   * A place that was free when the bucket was last read, or was freed by this process since. No place is offered twice by
   * one reading, unless it was freed.
   */
  async offer(priority: BoardPriority): Promise<Offer> {
    for (;;) {
      const known = this.known(priority)
      if (known !== undefined) return known
      const filling = this.#filling.get(priority) ?? this.#fill(priority).finally(() => this.#filling.delete(priority))
      this.#filling.set(priority, filling)
      await filling
    }
  }

  /** Like {@link offer}; `undefined` where the store would have to be read for it. */
  known(priority: BoardPriority): Offer | undefined {
    const tail = this.#tails.get(priority)
    const slot = tail === undefined || since(tail.readAt) > STALE_MS ? undefined : tail.free.pop()
    if (tail === undefined || slot === undefined) return undefined
    const { bucket, beginning, underWay, readAt } = tail
    underWay.add(slot)
    return { priority, bucket, slot, key: `${beginning}${slot.toString(36)}`, readAt }
  }

  /** Notes that another poster has taken the place. */
  missed({ priority, bucket, slot }: Offer): void {
    const tail = this.#tails.get(priority)
    if (tail?.bucket !== bucket) return
    tail.underWay.delete(slot)
    if (++tail.misses >= MISSES) tail.free.length = 0
  }

  /** A job was stored at this place. */
  hit({ priority, bucket, slot }: Offer, sequence: number): void {
    const tail = this.#tails.get(priority)
    if (tail === undefined) return
    tail.misses = 0
    // The job may lie in an earlier bucket: those of later buckets have higher sequences all the same.
    tail.newest = Math.max(tail.newest, sequence)
    if (tail.bucket !== bucket) return
    tail.underWay.delete(slot)
    if (tail.stored.length < BUCKET_SIZE) tail.stored.push(slot)
  }

  /** Notes that the entry of a job was removed, so that its place is free. */
  freed(key: string): void {
    for (const { beginning, free } of this.#tails.values()) {
      if (key.startsWith(beginning) && free.length < BUCKET_SIZE) free.push(slotOf(key, beginning))
    }
  }

  /** Whether a job was stored so soon that readers will look into its bucket. */
  isFresh({ readAt }: Offer): boolean {
    return since(readAt) <= TRUSTED_MS
  }

  /**
   * Whether readers will look into the bucket in which a job was stored at this place. When more than {@link
   * TRUSTED_MS} have passed, only the last bucket is sure to be read: a reader that has found an earlier one empty
   * drops it some time later.
   */
  async isRead(offer: Offer): Promise<boolean> {
    if (this.isFresh(offer)) return true
    const { priority, bucket } = offer
    const line = lineOf(await this.#entries.index(), priority)
    return line !== undefined && bucket === tailOf(line)
  }

  async #fill(priority: BoardPriority): Promise<void> {
    const before = this.#tails.get(priority)
    let tail = before
    if (tail === undefined || since(tail.readAt) > STALE_MS) {
      tail = await this.#last(priority)
      if (before?.bucket === tail.bucket) {
        before.readAt = tail.readAt
        tail = before
        if (before.free.length > 0) return
      }
    }
    const { bucket, readAt } = tail
    const highest = tail === before ? await this.#highestOfFull(priority, tail) : undefined
    if (highest !== undefined) return this.#open(priority, bucket, highest)
    const entries = await this.#entries.bucketOf(priority, bucket)
    const taken = new Set(entries.map(({ key }) => slotOf(key, tail.beginning)))
    const { underWay } = tail
    const free = ALL.filter((slot) => !taken.has(slot) && !underWay.has(slot))
    const newest = Math.max(tail.newest, ...entries.map((entry) => this.#entries.decode(entry)?.record.sequence ?? 0))
    if (free.length < FEW) return this.#open(priority, bucket, newest)
    this.#tails.set(priority, { ...this.#unread(priority, bucket, readAt), free: inTurn(free), underWay, newest })
  }

  /**
   * The highest sequence that is known of a bucket that has been used up, where some of what this poster has stored in it is
   * there still, so that it is most likely full.
   */
  async #highestOfFull(priority: BoardPriority, { bucket, stored, newest }: Tail): Promise<number | undefined> {
    if (stored.length < SAMPLE) return undefined
    const every = Math.floor(stored.length / SAMPLE)
    const slots = stored.filter((_, at) => at % every === 0)
    const found = await this.#entries.store.get(slots.map((slot) => this.#entries.slot({ priority, bucket, slot })))
    return found.includes(undefined) ? undefined : newest
  }

  /** Goes on in the bucket after this one. */
  async #open(priority: BoardPriority, full: number, newest: number): Promise<void> {
    const opened = await this.#opened(priority, full, newest)
    // Other posters may use the new bucket already; a place that they have taken is found to be taken.
    const before = this.#tails.get(priority)
    this.#tails.set(priority, { ...opened, free: inTurn(ALL), newest: Math.max(newest, before?.newest ?? 0) })
  }

  /** The last bucket, by the index as it is now; none of its places is known to be free. */
  async #last(priority: BoardPriority): Promise<Tail> {
    const readAt = moment()
    const line = lineOf(await this.#entries.index(), priority)
    return line === undefined ? this.#opened(priority, undefined, 0) : this.#unread(priority, tailOf(line), readAt)
  }

  /** Opens the first bucket, or the one after `full`. */
  async #opened(priority: BoardPriority, full: number | undefined, newest: number): Promise<Tail> {
    const readAt = moment()
    const index = await this.#entries.changeIndex((found) => bucketOpened(found, priority, full, newest))
    const line = lineOf(index, priority)
    return this.#unread(priority, line === undefined ? 0 : tailOf(line), readAt)
  }

  /** A bucket whose entries have not been read. */
  #unread(priority: BoardPriority, bucket: number, readAt: Moment): Tail {
    const beginning = this.#entries.bucket(priority, bucket)
    return { bucket, beginning, readAt, free: [], underWay: new Set(), misses: 0, stored: [], newest: 0 }
  }
}
