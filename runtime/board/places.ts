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
import type { BoardEntries } from "./entries.ts"

/** How old the reading of the index may be when a job is stored by it. */
const TRUSTED_MS = 5_000
export const RETIRE_MS = 2 * TRUSTED_MS
/** The index is read again after this time. */
const STALE_MS = 2_000
/** A bucket with fewer free places counts as full: several posters would meet in them. */
const FEW = 32
/** So many places in a row that were taken: others post into this bucket too. */
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
  readonly free: Array<number>
  /** When the reading of the index began that says that this is the last bucket. */
  readAt: Moment
  misses: number
}

/** A place to post into, and when it was known to be in the last bucket. */
export interface Offer extends Place {
  readonly readAt: Moment
}

/** The numbers in random order, so that several posters seldom meet. */
const shuffled = (numbers: Array<number>): Array<number> => {
  for (let at = numbers.length - 1; at > 0; at--) {
    const other = Math.floor(Math.random() * (at + 1))
    const [a, b] = [numbers[at] ?? 0, numbers[other] ?? 0]
    numbers[at] = b
    numbers[other] = a
  }
  return numbers
}

const ALL = Array.from({ length: BUCKET_SIZE }, (_, slot) => slot)

export class Places {
  readonly #entries: BoardEntries
  readonly #tails = new Map<BoardPriority, Tail>()
  readonly #filling = new Map<BoardPriority, Promise<void>>()

  constructor(entries: BoardEntries) {
    this.#entries = entries
  }

  /** A place that was free when it was last looked at. No place is offered twice by one reading. */
  async offer(priority: BoardPriority): Promise<Offer> {
    for (;;) {
      const tail = this.#tails.get(priority)
      const slot = tail === undefined || since(tail.readAt) > STALE_MS ? undefined : tail.free.pop()
      if (tail !== undefined && slot !== undefined) return { priority, bucket: tail.bucket, slot, readAt: tail.readAt }
      const filling = this.#filling.get(priority) ?? this.#fill(priority).finally(() => this.#filling.delete(priority))
      this.#filling.set(priority, filling)
      await filling
    }
  }

  /** Another poster was faster. */
  missed({ priority, bucket }: Offer): void {
    const tail = this.#tails.get(priority)
    if (tail?.bucket !== bucket) return
    if (++tail.misses >= MISSES) tail.free.length = 0
  }

  hit({ priority }: Offer): void {
    const tail = this.#tails.get(priority)
    if (tail !== undefined) tail.misses = 0
  }

  /**
   * Whether readers will look into the bucket in which a job was stored at this place. Late, only in the last bucket: a
   * reader that has found an earlier one empty drops it some time after it has looked.
   */
  async isRead({ priority, bucket, readAt }: Offer): Promise<boolean> {
    if (since(readAt) <= TRUSTED_MS) return true
    const line = lineOf(await this.#entries.index(), priority)
    return line !== undefined && bucket === tailOf(line)
  }

  async #fill(priority: BoardPriority): Promise<void> {
    const before = this.#tails.get(priority)
    let tail = before
    if (tail === undefined || since(tail.readAt) > STALE_MS) {
      tail = await this.#last(priority)
      if (before?.bucket === tail.bucket && before.free.length > 0) {
        before.readAt = tail.readAt
        return
      }
    }
    const { bucket, readAt } = tail
    const entries = await this.#entries.bucketOf(priority, bucket)
    const taken = new Set(entries.map(({ key }) => key))
    const free = ALL.filter((slot) => !taken.has(this.#entries.slot({ priority, bucket, slot })))
    if (free.length >= FEW) {
      this.#tails.set(priority, { bucket, free: shuffled(free), readAt, misses: 0 })
      return
    }
    const newest = Math.max(0, ...entries.map((entry) => this.#entries.decode(entry)?.record.sequence ?? 0))
    // Others may post into the new bucket already; a place that they have taken is found to be taken.
    const opened = await this.#opened(priority, bucket, newest)
    this.#tails.set(priority, { ...opened, free: shuffled([...ALL]) })
  }

  /** The last bucket, by the index as it is now; none of its places is known to be free. */
  async #last(priority: BoardPriority): Promise<Tail> {
    const readAt = moment()
    const line = lineOf(await this.#entries.index(), priority)
    return line === undefined
      ? this.#opened(priority, undefined, 0)
      : { bucket: tailOf(line), free: [], readAt, misses: 0 }
  }

  /** Opens the first bucket, or the one after `full`. */
  async #opened(priority: BoardPriority, full: number | undefined, newest: number): Promise<Tail> {
    const readAt = moment()
    const index = await this.#entries.changeIndex((found) => bucketOpened(found, priority, full, newest))
    const line = lineOf(index, priority)
    return { bucket: line === undefined ? 0 : tailOf(line), free: [], readAt, misses: 0 }
  }
}
