/** The entries of the store that workers keep about what they did, and how they are read. */
import * as Schema from "effect/Schema"
import { StoreEntry } from "../async/store-entry.ts"
import { addHistogram, addSparse, type SparseHistogram } from "./histogram.ts"
import { ENDS, SLOT_MINUTES } from "./tally.ts"

/** How long entries are kept: a day and two hours, so that the last 24 hours are whole. */
export const RETENTION_MS = 26 * 3_600_000

const SlotEntry = Schema.Struct({
  worker: Schema.String,
  /** Distinguishes the worker from an earlier one of the same name. */
  id: Schema.String,
  host: Schema.String,
  pid: Schema.Int,
  /** As in the list of workers. */
  startedAt: Schema.String,
  /** The application's own version: `CALLBOARD_VERSION`. */
  version: Schema.optionalKey(Schema.String),
  queues: Schema.Array(Schema.String),
  concurrency: Schema.Int,
  /** When the worker started, and when it wrote this: by the clock of the transport, in milliseconds since the epoch. */
  since: Schema.Finite,
  at: Schema.Finite,
  /** The worker has stopped in order, so it is not reported as lost. */
  goodbye: Schema.optionalKey(Schema.Literal(true)),
  /** Task, queue, and counts as `tally.ts` writes them. */
  cells: Schema.Array(Schema.Tuple([Schema.String, Schema.String, Schema.String])),
})
export type SlotEntry = typeof SlotEntry.Type

/**
 * What one worker counted in ten minutes, by their number since the epoch and the worker. Only that worker writes it, and
 * each time all of it: so nothing is counted twice, and no compare-and-set is needed.
 */
export const SLOTS = new StoreEntry("stat/", SlotEntry, { ttlMs: RETENTION_MS })

export const slotName = (slot: number, worker: string, id: string): string => `${slot}/${worker}/${id}`

/** The counts of one minute, or of several. */
export class Bin {
  readonly ends = new Array<number>(ENDS.length).fill(0)
  readonly waited: SparseHistogram = new Map()
  readonly ran: SparseHistogram = new Map()

  add({ ends, waited, ran }: Bin): void {
    for (const [at, count] of ends.entries()) this.ends[at] = (this.ends[at] ?? 0) + count
    addSparse(this.waited, waited)
    addSparse(this.ran, ran)
  }

  get succeeded(): number {
    return this.ends[0] ?? 0
  }
  get failed(): number {
    return this.ends[1] ?? 0
  }
  get retried(): number {
    return this.ends[2] ?? 0
  }
  get cancelled(): number {
    return this.ends[3] ?? 0
  }
  get expired(): number {
    return this.ends[4] ?? 0
  }
  /** Jobs that have ended. */
  get ended(): number {
    return this.succeeded + this.failed + this.cancelled + this.expired
  }
  /** Attempts whose handler ran. */
  get started(): number {
    let count = 0
    for (const each of this.ran.values()) count += each
    return count
  }
}

/** What is known about a task, queue and version in one slot. */
export interface SlotCell {
  readonly task: string
  readonly queue: string
  readonly version: string
  /** One for each minute of the slot, or a single one for all of it. */
  readonly bins: ReadonlyArray<Bin>
  /** Jobs by the minute of their submission, counted from the first minute of the slot. */
  readonly submitted: Map<number, number>
}

/** Most tasks, queues and versions that a reader tells apart in one slot. */
const MAX_MERGED = 400

const count = (text: string | undefined): number => {
  const value = Number(text)
  return Number.isSafeInteger(value) && value >= 0 ? value : 0
}

/** Adds up what several workers counted in a slot. Text that is no count is left out. */
export const mergedSlot = (slots: ReadonlyArray<SlotEntry>): ReadonlyArray<SlotCell> => {
  const merged = new Map<string, SlotCell>()
  for (const { version = "", cells } of slots) {
    for (const [task, queue, text] of cells) {
      const key = JSON.stringify([task, queue, version])
      let cell = merged.get(key)
      if (cell === undefined) {
        if (merged.size >= MAX_MERGED) continue
        cell = {
          task,
          queue,
          version,
          bins: Array.from({ length: SLOT_MINUTES }, () => new Bin()),
          submitted: new Map(),
        }
        merged.set(key, cell)
      }
      addCounts(cell, text)
    }
  }
  return [...merged.values()]
}

const addCounts = ({ bins, submitted }: SlotCell, text: string): void => {
  const [first = "", ...lines] = text.split("\n")
  for (const part of first === "" ? [] : first.split(" ")) {
    const colon = part.indexOf(":")
    const minute = Number(part.slice(0, colon))
    if (colon > 0 && Number.isSafeInteger(minute))
      submitted.set(minute, (submitted.get(minute) ?? 0) + count(part.slice(colon + 1)))
  }
  for (const line of lines) {
    const space = line.indexOf(" ")
    const bin = bins[count(line.slice(0, space))]
    if (space < 1 || bin === undefined) continue
    const [ends = "", waited = "", ran = ""] = line.slice(space + 1).split("|")
    for (const [at, each] of ends.split(",").entries())
      if (at < ENDS.length) bin.ends[at] = (bin.ends[at] ?? 0) + count(each)
    addHistogram(bin.waited, waited)
    addHistogram(bin.ran, ran)
  }
}

/** The same with one bin for the whole slot, which takes a tenth of the memory: for slots that are long past. */
export const coarse = (cells: ReadonlyArray<SlotCell>): ReadonlyArray<SlotCell> =>
  cells.map((cell) => {
    const whole = new Bin()
    for (const bin of cell.bins) whole.add(bin)
    return { ...cell, bins: [whole] }
  })

const Depth = Schema.Struct({
  /** Samples of the minutes of a slot: minute of the slot, and per queue its name, what waits, is scheduled and runs. */
  minutes: Schema.Array(
    Schema.Struct({
      minute: Schema.Int,
      at: Schema.Finite,
      queues: Schema.Array(Schema.Tuple([Schema.String, Schema.Int, Schema.Int, Schema.Int])),
    }),
  ),
})
export type DepthSample = (typeof Depth.Type)["minutes"][number]

/** Depths of the queues, sampled once a minute by whichever worker is first, by the number of ten minutes since the epoch. */
export const DEPTHS = new StoreEntry("depth/", Depth, { ttlMs: RETENTION_MS })

/** Most queues in a sample: those in which most waits. */
export const MAX_SAMPLED = 100

/**
 * A queue in a sample; `undefined` where the sample had no room for it. A queue that is not in a sample with room had
 * nothing in it.
 */
export const sampleOf = ({ queues }: DepthSample, name: string): DepthSample["queues"][number] | undefined =>
  queues.find(([queue]) => queue === name) ?? (queues.length < MAX_SAMPLED ? [name, 0, 0, 0] : undefined)

const Counts = Schema.Record(Schema.String, Schema.Int)

const FailureEntry = Schema.Struct({
  worker: Schema.String,
  version: Schema.optionalKey(Schema.String),
  causes: Schema.Array(
    Schema.Struct({
      fingerprint: Schema.String,
      name: Schema.String,
      reason: Schema.String,
      template: Schema.String,
      frame: Schema.optionalKey(Schema.String),
      tasks: Schema.Array(Schema.String),
      queues: Counts,
      attempts: Counts,
      minutes: Schema.Array(Schema.Int),
      then: Schema.Struct({ failed: Schema.Int, retrying: Schema.Int, dead: Schema.Int }),
      first: Schema.Finite,
      last: Schema.Finite,
      ids: Schema.Array(Schema.String),
    }),
  ),
})
export type FailureEntry = typeof FailureEntry.Type

/** The failures that one worker kept in a slot; `slot` is the number of ten minutes since the epoch. */
export interface FailureSlot extends FailureEntry {
  readonly slot: number
}

/** Failures of one worker in ten minutes, under the same names as {@link SLOTS}, and written in the same way. */
export const FAILURES = new StoreEntry("fail/", FailureEntry, { ttlMs: RETENTION_MS })

const KnownCauses = Schema.Struct({
  causes: Schema.Array(
    Schema.Struct({
      fingerprint: Schema.String,
      first: Schema.Finite,
      last: Schema.Finite,
      /** When the cause last appeared again after it had been quiet. */
      back: Schema.optionalKey(Schema.Finite),
    }),
  ),
})
export type KnownCause = (typeof KnownCauses.Type)["causes"][number]

const KNOWN_MS = 30 * 86_400_000

/** Since when each cause is known, longer than its failures are kept. One entry, changed by compare-and-set. */
export const KNOWN = new StoreEntry("causes/", KnownCauses, { ttlMs: KNOWN_MS })
export const KNOWN_NAME = "known"

/** Most causes that are kept for a board: the ones that occurred last. */
export const MAX_CAUSES = 500
/** A cause that appears again after this long without a failure is reported as back, in milliseconds. */
const QUIET_MS = 3_600_000

/** The known causes with those that were met now. Times are milliseconds since the epoch. */
export const knownWith = (
  known: ReadonlyArray<KnownCause>,
  met: ReadonlyArray<{ readonly fingerprint: string; readonly first: number; readonly last: number }>,
): ReadonlyArray<KnownCause> => {
  const all = new Map(known.map((cause) => [cause.fingerprint, cause]))
  for (const { fingerprint, first, last } of met) {
    const found = all.get(fingerprint)
    // The known time was written by a worker whose clock was far ahead.
    const isAhead = found !== undefined && found.last > last + QUIET_MS
    const before = isAhead ? { ...found, first: Math.min(found.first, first), last } : found
    const isBack = before !== undefined && first - before.last > QUIET_MS
    all.set(fingerprint, {
      ...(before ?? { fingerprint, first }),
      last: Math.max(before?.last ?? last, last),
      ...(isBack ? { back: first } : {}),
    })
  }
  return [...all.values()].sort((a, b) => b.last - a.last).slice(0, MAX_CAUSES)
}
