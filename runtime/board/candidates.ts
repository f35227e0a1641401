/**
 * The jobs that claims of the next job try, in order. They are looked for together and kept for a second, so that many
 * claims at the same time share one look at the store. What this board posts is added to a list that is whole, so that a
 * board that works off what it posts itself looks once a second.
 */
import { BOARD_PRIORITIES } from "../protocol/board.ts"
import type { Store } from "../transport/store.ts"
import type { Known } from "./entries.ts"
import type { BoardReader } from "./reading.ts"

/** Most jobs that one look finds. */
const MOST = 256
/** How long a list counts. */
const KEPT_MS = 1_000

const PRIORITIES: ReadonlyArray<string> = BOARD_PRIORITIES
const rankOf = (known: Known): number => PRIORITIES.indexOf(known.record.priority)
const inOrder = (a: Known, b: Known): number => rankOf(a) - rankOf(b) || a.record.sequence - b.record.sequence

interface Look {
  readonly number: number
  /** Whether there was no job that can be claimed. */
  readonly isEmpty: boolean
}

export class Candidates {
  readonly #reader: BoardReader
  readonly #store: Pick<Store, "now">
  readonly #reclaimAfterMs: number
  #list: Array<Known> = []
  #at = Number.NEGATIVE_INFINITY
  /** Whether there is no other job that can be claimed, as far as is known. */
  #isWhole = false
  #looking: Promise<Look> | undefined
  #looks = 0
  /** What this board has posted since the look under way began, and the highest rank of what others have. */
  #posted: Array<Known> = []
  #heardRank = Number.POSITIVE_INFINITY

  constructor(reader: BoardReader, store: Pick<Store, "now">, reclaimAfterMs: number) {
    this.#reader = reader
    this.#store = store
    this.#reclaimAfterMs = reclaimAfterMs
  }

  /** The next job to try; `undefined` once a look that began after this call has found none. */
  async next(): Promise<Known | undefined> {
    const before = this.#looks
    for (;;) {
      if (performance.now() - this.#at > KEPT_MS) this.#list = []
      const next = this.#list.shift()
      if (next !== undefined) return next
      this.#looking ??= this.#look().finally(() => {
        this.#looking = undefined
      })
      const { number, isEmpty } = await this.#looking
      if (isEmpty && number > before) return undefined
    }
  }

  /** This board has posted a job. */
  posted(known: Known): void {
    if (this.#looking !== undefined) this.#posted.push(known)
    if (this.#isWhole && performance.now() - this.#at <= KEPT_MS) this.#add(known)
    else this.#dropBelow(rankOf(known))
  }

  /** Another board has posted a job of this priority. */
  heard(priority: string): void {
    const rank = PRIORITIES.indexOf(priority)
    this.#isWhole = false
    this.#heardRank = Math.min(this.#heardRank, rank)
    this.#dropBelow(rank)
  }

  /** A job can be claimed again. */
  clear(): void {
    this.#list = []
    this.#isWhole = false
    this.#heardRank = -1
  }

  #add(known: Known): void {
    const later = this.#list.findIndex((each) => inOrder(each, known) > 0)
    this.#list.splice(later < 0 ? this.#list.length : later, 0, known)
  }

  /** A job of this rank came: what was found before is tried first only if its priority is as high. */
  #dropBelow(rank: number): void {
    const below = this.#list.findIndex((each) => rankOf(each) > rank)
    if (below < 0) return
    this.#list.length = below
    this.#isWhole = false
  }

  async #look(): Promise<Look> {
    const number = ++this.#looks
    this.#posted = []
    this.#heardRank = Number.POSITIVE_INFINITY
    const found: Array<Known> = []
    const now = await this.#store.now()
    for await (const known of this.#reader.jobs(undefined, undefined, true)) {
      const { claim } = known.record
      const isFree = claim === undefined || (claim.until !== null && claim.until + this.#reclaimAfterMs <= now)
      if (isFree && found.push(known) >= MOST) break
    }
    const isAll = found.length < MOST
    const last = found.at(-1)
    const ids = new Set(found.map(({ record }) => record.id))
    const isEmpty = found.length === 0
    this.#list = found
    this.#at = performance.now()
    this.#isWhole = isAll && this.#heardRank === Number.POSITIVE_INFINITY
    // Of a list that is not whole, what was posted meanwhile comes after jobs that were not found, unless its priority is higher.
    for (const known of this.#posted)
      if (!ids.has(known.record.id) && (isAll || (last !== undefined && rankOf(known) < rankOf(last)))) this.#add(known)
    const heard = this.#heardRank
    if (heard >= 0) this.#dropBelow(heard)
    return { number, isEmpty }
  }
}
