/**
 * The jobs that claims of the next job try, in order. One look at the store finds them, and they are kept for a second,
 * so that many claims at the same time share that look. While the list is complete, a job that this board posts is
 * added to it: a board that takes what it posts itself then looks once a second.
 */
import { BOARD_PRIORITIES } from "../protocol/board.ts"
import type { Revision, Store } from "../transport/store.ts"
import type { Known } from "./entries.ts"
import type { BoardReader } from "./reading.ts"

/** A look ends once it has found this many jobs. It keeps all jobs that it has read by then. */
const ENOUGH = 256
/** When fewer jobs than this are left the next look begins, so that claims need not wait for it. */
const FEW = 64
/** How long a list is used, in milliseconds. */
const KEPT_MS = 1_000

const PRIORITIES: ReadonlyArray<string> = BOARD_PRIORITIES
/** The position of a job: by priority, then by sequence. */
interface Position {
  readonly rank: number
  readonly sequence: number
}
const FIRST: Position = { rank: -1, sequence: -1 }
const LAST: Position = { rank: PRIORITIES.length, sequence: Number.POSITIVE_INFINITY }

const rankOf = (known: Known): number => PRIORITIES.indexOf(known.record.priority)
const positionOf = (known: Known): Position => ({ rank: rankOf(known), sequence: known.record.sequence })
const isBefore = ({ rank, sequence }: Position, known: Known): boolean => {
  const other = rankOf(known)
  return rank < other || (rank === other && sequence < known.record.sequence)
}

interface Look {
  readonly number: number
  /** Whether the look has found no job that can be claimed. */
  readonly isEmpty: boolean
}

export class Candidates {
  readonly #reader: BoardReader
  readonly #store: Pick<Store, "now">
  readonly #reclaimAfterMs: number
  /** Jobs that were handed out since the last look began, with their revision at that time; the other map has those before. */
  #given = new Map<string, Revision>()
  #givenBefore = new Map<string, Revision>()
  #list: Array<Known> = []
  #at = Number.NEGATIVE_INFINITY
  /** Whether the list is complete: as far as is known, no other job can be claimed. */
  #isWhole = false
  /** Whether the last look ended before it had read all jobs. */
  #isCut = false
  #looking: Promise<Look> | undefined
  #looks = 0
  /**
   * Jobs that this board has posted since the present look began, and the first position at which another board has
   * posted one.
   */
  #posted: Array<Known> = []
  #heard = LAST

  constructor(reader: BoardReader, store: Pick<Store, "now">, reclaimAfterMs: number) {
    this.#reader = reader
    this.#store = store
    this.#reclaimAfterMs = reclaimAfterMs
  }

  /** The next job that a claim should try, if this process knows of one. */
  known(): Known | undefined {
    if (performance.now() - this.#at > KEPT_MS) this.#list = []
    const next = this.#list.shift()
    if (next === undefined) return undefined
    this.#given.set(next.record.id, next.revision)
    // A look that fails here is made again by the next claim, which reports the failure.
    if (this.#isCut && this.#list.length < FEW) this.#lookAgain().catch(() => undefined)
    return next
  }

  /** The next job to try; `undefined` once a look that began after this call has found none. */
  async next(): Promise<Known | undefined> {
    const before = this.#looks
    for (;;) {
      const next = this.known()
      if (next !== undefined) return next
      const { number, isEmpty } = await this.#lookAgain()
      if (isEmpty && number > before) return undefined
    }
  }

  /** Notes that the claim of a job that was handed out has succeeded or failed. */
  settled(id: string): void {
    // A look that is under way may have read the job before its claim ended.
    if (this.#looking !== undefined) return
    this.#given.delete(id)
    this.#givenBefore.delete(id)
  }

  /** Begins a look, or joins the one that is under way. */
  #lookAgain(): Promise<Look> {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined
    })
    return this.#looking
  }

  /** Notes that this board has posted a job. */
  posted(known: Known): void {
    if (this.#looking !== undefined) this.#posted.push(known)
    if (this.#isWhole && performance.now() - this.#at <= KEPT_MS) this.#add(known)
    else this.#dropAfter(positionOf(known))
  }

  /** Notes that another board has posted a job, or restored one, whose sequence need not be the highest of its priority. */
  heard(priority: string, sequence: number): void {
    const position = { rank: PRIORITIES.indexOf(priority), sequence }
    this.#isWhole = false
    const { rank } = this.#heard
    if (position.rank < rank || (position.rank === rank && sequence < this.#heard.sequence)) this.#heard = position
    this.#dropAfter(position)
  }

  /** A job can be claimed again: the next claim looks at the store. */
  clear(): void {
    this.#given.clear()
    this.#givenBefore.clear()
    this.#list = []
    this.#isWhole = false
    this.#heard = FIRST
  }

  #add(known: Known): void {
    const position = positionOf(known)
    const later = this.#list.findIndex((each) => isBefore(position, each))
    this.#list.splice(later < 0 ? this.#list.length : later, 0, known)
  }

  /** A new job has this position: of the jobs found before, only those ahead of it are tried first. */
  #dropAfter(position: Position): void {
    const last = this.#list.at(-1)
    if (last === undefined || !isBefore(position, last)) return
    this.#list.length = this.#list.findIndex((each) => isBefore(position, each))
    this.#isWhole = false
  }

  async #look(): Promise<Look> {
    const number = ++this.#looks
    this.#givenBefore = this.#given
    this.#given = new Map()
    this.#posted = []
    this.#heard = LAST
    const found: Array<Known> = []
    const now = await this.#store.now()
    let isAll = true
    for await (const part of this.#reader.parts(undefined, undefined, true)) {
      found.push(...part.filter((known) => this.#canBeClaimed(known, now)))
      isAll = found.length < ENOUGH
      if (!isAll) break
    }
    const last = found.at(-1)
    const ids = new Set(found.map(({ record }) => record.id))
    const isEmpty = found.length === 0
    // Some of the jobs may have been handed out while the look was under way.
    this.#list = found.filter((known) => !this.#isGiven(known))
    this.#at = performance.now()
    this.#isCut = !isAll
    this.#isWhole = isAll && this.#heard === LAST
    // Jobs that were posted during the look are added. If the list was cut, they come after jobs that are not in it, so that only
    // those of a higher priority are added.
    for (const known of this.#posted) {
      const isFirst = isAll || (last !== undefined && rankOf(known) < rankOf(last))
      if (isFirst && !ids.has(known.record.id) && !this.#isGiven(known)) this.#add(known)
    }
    if (this.#heard !== FIRST) this.#dropAfter(this.#heard)
    return { number, isEmpty }
  }

  #canBeClaimed(known: Known, now: number): boolean {
    const { claim } = known.record
    const isFree = claim === undefined || (claim.until !== null && claim.until + this.#reclaimAfterMs <= now)
    return isFree && !this.#isGiven(known)
  }

  /** Whether the job was handed out and has not changed since, so that a claim of it is under way. */
  #isGiven({ record: { id }, revision }: Known): boolean {
    return (this.#given.get(id) ?? this.#givenBefore.get(id)) === revision
  }
}
