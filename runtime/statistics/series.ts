/** Series over time, from what workers have kept. Pure: slots and clock come from outside. */
import { refuseInput } from "../options/refuse.ts"
import { Bin, type DepthSample } from "./entries.ts"
import { addSparse, percentilesOf, type SparseHistogram } from "./histogram.ts"
import type { ReadSlots, SeenWorker, Slot } from "./reading.ts"
import type { Mark, PercentilePoints, Percentiles, Points, Series } from "./schema.ts"
import { MINUTE_MS, OTHER, SLOT_MS } from "./tally.ts"

export const SERIES_OF = ["ended", "submitted", "started", "wait", "run", "waiting"] as const
export const SERIES_BY = ["outcome", "task", "queue", "version"] as const

export interface SeriesQuery {
  readonly of: (typeof SERIES_OF)[number]
  readonly by?: (typeof SERIES_BY)[number] | undefined
  readonly task?: string | undefined
  readonly queue?: string | undefined
  /** How far back, in milliseconds, by the clock of the transport. Absent: from `from` on, or the last hour. */
  readonly range?: number | undefined
  /** Milliseconds since the epoch. */
  readonly from?: number | undefined
  readonly to?: number | undefined
  /** Milliseconds of a point. Absent: as few as there may be points. */
  readonly step?: number | undefined
}

const MAX_POINTS = 120
const MAX_SERIES = 12
const HOUR_MS = 3_600_000
/** How far back minutes are kept apart, in milliseconds. */
const FINE_MS = 2 * HOUR_MS
export const MAX_MS = 24 * HOUR_MS

/** The points of a series: each begins at a multiple of its length. Times are milliseconds since the epoch. */
export interface Grid {
  readonly from: number
  readonly step: number
  readonly points: number
}

/** Fails with `invalid-input`, naming `from`, `to` or `step`. */
export const gridOf = (
  { range, from, to, step }: Pick<SeriesQuery, "range" | "from" | "to" | "step">,
  now: number,
): Grid => {
  const end = Math.min(to ?? now, now)
  if (range !== undefined && from !== undefined) refuseInput("range", "cannot be used with `from`: leave one out")
  const begin = from ?? end - (range ?? HOUR_MS)
  if (begin >= end) refuseInput("from", "must be before `to`, and before now")
  if (begin < now - MAX_MS - SLOT_MS) refuseInput("from", "must be within the last 24 hours; older data is not kept")
  const unit = begin >= now - FINE_MS ? MINUTE_MS : SLOT_MS
  const min = Math.ceil((end - begin) / MAX_POINTS / unit) * unit
  const fitting = Math.ceil((end - begin) / 90 / unit) * unit
  if (step !== undefined && (step < min || step > MAX_MS || step % unit !== 0)) {
    refuseInput(
      "step",
      `must be a multiple of ${unit / 1_000} s, at least ${min / 1_000} s (there are ${MAX_POINTS} points) and at most ${MAX_MS / HOUR_MS} hours`,
    )
  }
  const length = step ?? Math.max(unit, fitting)
  const first = Math.floor(begin / length) * length
  const points = Math.min(Math.ceil((end - first) / length), MAX_POINTS + 1)
  // One point more would begin before `from`: the range need not begin at a multiple of the step.
  return points > MAX_POINTS
    ? { from: first + length, step: length, points: MAX_POINTS }
    : { from: first, step: length, points }
}

const pointOf = ({ from, step, points }: Grid, at: number): number | undefined => {
  const point = Math.floor((at - from) / step)
  return point >= 0 && point < points ? point : undefined
}

/** The tasks and queues to count. */
export type Filter = Pick<SeriesQuery, "task" | "queue">

/** `text` means all methods of the actor `text`, and `text.count` one of them. */
const isMeant = (cell: { readonly task: string; readonly queue: string }, { task, queue }: Filter): boolean =>
  (task === undefined || cell.task === task || cell.task.startsWith(`${task}.`)) &&
  (queue === undefined || cell.queue === queue)

/** What was counted, by key and point of the grid. */
export const binsOf = (
  slots: ReadonlyArray<Slot>,
  grid: Grid,
  filter: Filter,
  keyOf: (cell: Slot["cells"][number]) => string,
): ReadonlyMap<string, ReadonlyArray<Bin>> => {
  const found = new Map<string, ReadonlyArray<Bin>>()
  for (const { slot, cells } of slots) {
    for (const cell of cells) {
      if (!isMeant(cell, filter)) continue
      const key = keyOf(cell)
      const bins = found.get(key) ?? Array.from({ length: grid.points }, () => new Bin())
      found.set(key, bins)
      for (const [minute, bin] of cell.bins.entries()) {
        const point = pointOf(grid, slot * SLOT_MS + minute * MINUTE_MS)
        if (point !== undefined) bins[point]?.add(bin)
      }
    }
  }
  return found
}

/** How many jobs were submitted, by key and point, as far as workers have taken them. */
const submittedOf = (
  slots: ReadonlyArray<Slot>,
  grid: Grid,
  filter: Filter,
  keyOf: (cell: Slot["cells"][number]) => string,
): ReadonlyMap<string, Array<number>> => {
  const found = new Map<string, Array<number>>()
  for (const { slot, cells } of slots) {
    for (const cell of cells) {
      if (!isMeant(cell, filter)) continue
      const key = keyOf(cell)
      const points = found.get(key) ?? new Array<number>(grid.points).fill(0)
      found.set(key, points)
      for (const [minute, count] of cell.submitted) {
        const point = pointOf(grid, slot * SLOT_MS + minute * MINUTE_MS)
        if (point !== undefined) points[point] = (points[point] ?? 0) + count
      }
    }
  }
  return found
}

/** How much waited in the queues, by queue or in all: of several samples of a point the last. */
const waitingOf = (
  samples: ReadonlyArray<DepthSample>,
  grid: Grid,
  { queue }: Filter,
  isByQueue: boolean,
): ReadonlyMap<string, Array<number | null>> => {
  const found = new Map<string, Array<number | null>>()
  for (const { at, queues } of samples) {
    const point = pointOf(grid, at)
    if (point === undefined) continue
    const sums = new Map<string, number>()
    for (const [name, ready] of queues) {
      if (queue !== undefined && name !== queue) continue
      const key = isByQueue ? name : "waiting"
      sums.set(key, (sums.get(key) ?? 0) + ready)
    }
    // A queue that is not in the sample had nothing in it.
    for (const key of [...found.keys(), ...sums.keys(), ...(isByQueue ? [] : ["waiting"])]) {
      const points = found.get(key) ?? new Array<number | null>(grid.points).fill(null)
      found.set(key, points)
      points[point] = sums.get(key) ?? 0
    }
  }
  return found
}

/** The points of which anything is known. A worker that did nothing has written that as well. */
const knownPoints = ({ slots, newest }: ReadSlots, grid: Grid): ReadonlyArray<boolean> => {
  const known = new Set(slots.filter(({ workers }) => workers.length > 0).map(({ slot }) => slot))
  return Array.from({ length: grid.points }, (_, point) => {
    const begin = grid.from + point * grid.step
    if (begin > newest) return false
    for (let at = begin; at < begin + grid.step; at += Math.min(grid.step, SLOT_MS))
      if (known.has(Math.floor(at / SLOT_MS))) return true
    return false
  })
}

type Named<A> = ReadonlyArray<readonly [key: string, points: A]>

/** The largest series, by name, and the sum of the rest. */
const largest = <A>(
  all: ReadonlyMap<string, A>,
  sizeOf: (points: A) => number,
  sum: (parts: ReadonlyArray<A>) => A,
): Named<A> => {
  const sorted = [...all].sort(([a, left], [b, right]) => sizeOf(right) - sizeOf(left) || (a < b ? -1 : 1))
  if (sorted.length <= MAX_SERIES) return sorted
  const rest = sorted.slice(MAX_SERIES - 1)
  return [...sorted.slice(0, MAX_SERIES - 1), [OTHER, sum(rest.map(([, points]) => points))]]
}

const sumBins = (parts: ReadonlyArray<ReadonlyArray<Bin>>): ReadonlyArray<Bin> => {
  const [first = []] = parts
  return first.map((_, point) => {
    const sum = new Bin()
    for (const part of parts) sum.add(part[point] ?? new Bin())
    return sum
  })
}

const sumNumbers = (parts: ReadonlyArray<ReadonlyArray<number | null>>): Array<number | null> => {
  const [first = []] = parts
  return first.map((_, point) => {
    const values = parts.map((part) => part[point] ?? null)
    return values.every((value) => value === null) ? null : values.reduce<number>((sum, value) => sum + (value ?? 0), 0)
  })
}

const total = (points: Points): number => points.reduce<number>((sum, point) => sum + (point ?? 0), 0)

const percentilePoints = (histograms: ReadonlyArray<SparseHistogram>): PercentilePoints => {
  const all = histograms.map(percentilesOf)
  const points = (name: keyof Percentiles): Points => all.map((each) => each?.[name] ?? null)
  return { p50: points("p50"), p95: points("p95"), p99: points("p99") }
}

/** Fails with `invalid-input`, naming the parameter. */
export const seriesOf = (
  query: SeriesQuery,
  grid: Grid,
  read: ReadSlots,
  samples: ReadonlyArray<DepthSample>,
  marks: ReadonlyArray<Mark>,
): Series => {
  const known = knownPoints(read, grid)
  const whereKnown = (points: Points): Points => points.map((value, at) => (known[at] ? value : null))
  return {
    from: iso(grid.from),
    to: iso(grid.from + grid.step * grid.points),
    step: grid.step / 1_000,
    series: linesOf(query, grid, read.slots, samples, whereKnown).map(([key, points]) => ({ key, points })),
    marks,
    ...(read.partial ? { partial: true } : {}),
  }
}

const linesOf = (
  query: SeriesQuery,
  grid: Grid,
  slots: ReadonlyArray<Slot>,
  samples: ReadonlyArray<DepthSample>,
  whereKnown: (points: Points) => Points,
): Named<Points | PercentilePoints> => {
  const { of, by } = query
  if (by === "outcome" && of !== "ended") refuseInput("by", "`outcome` requires of=ended")
  const keyOf = (cell: Slot["cells"][number]): string =>
    by === undefined || by === "outcome" ? of : cell[by] === "" ? "(none)" : cell[by]
  if (of === "waiting") {
    if (by !== undefined && by !== "queue") refuseInput("by", "of=waiting can only be filtered by `queue`")
    if (query.task !== undefined) refuseInput("task", "of=waiting can only be split by queue")
    return largest(waitingOf(samples, grid, query, by === "queue"), total, sumNumbers)
  }
  if (of === "submitted") {
    const found: ReadonlyMap<string, Array<number | null>> = submittedOf(slots, grid, query, keyOf)
    return largest(found, total, sumNumbers).map(([key, points]) => [key, whereKnown(points)])
  }
  const size = (bins: ReadonlyArray<Bin>) => bins.reduce((sum, bin) => sum + bin.ended + bin.retried, 0)
  const bins = largest(binsOf(slots, grid, query, keyOf), size, sumBins)
  if (of === "wait" || of === "run") {
    return bins.map(([key, all]) => [key, percentilePoints(all.map((bin) => (of === "wait" ? bin.waited : bin.ran)))])
  }
  if (of === "started") return bins.map(([key, all]) => [key, whereKnown(all.map((bin) => bin.started))])
  if (by !== "outcome") return bins.map(([key, all]) => [key, whereKnown(all.map((bin) => bin.ended))])
  const all = sumBins([Array.from({ length: grid.points }, () => new Bin()), ...bins.map(([, each]) => each)])
  return [
    ["ok", whereKnown(all.map((bin) => bin.succeeded))],
    ["failed", whereKnown(all.map((bin) => bin.failed))],
    ["other", whereKnown(all.map((bin) => bin.cancelled + bin.expired))],
  ]
}

const MAX_MARKS = 50

/** The versions that were first seen, and the workers that were lost, in a range. */
export const marksOf = (
  slots: ReadonlyArray<Slot>,
  lost: ReadonlyArray<SeenWorker>,
  from: number,
  to: number,
): ReadonlyArray<Mark> => {
  const first = new Map<string, number>()
  for (const { workers } of slots)
    for (const { version, since } of workers)
      if (version !== undefined) first.set(version, Math.min(first.get(version) ?? since, since))
  const versions = [...first].map(([text, at]) => ({ at, kind: "version" as const, text }))
  const gone = lost.map(({ worker, at }) => ({ at, kind: "lost" as const, text: worker }))
  return [...versions, ...gone]
    .filter(({ at }) => at >= from && at < to)
    .sort((a, b) => a.at - b.at)
    .slice(-MAX_MARKS)
    .map((mark) => ({ ...mark, at: iso(mark.at) }))
}

export const iso = (ms: number): string => new Date(ms).toISOString()

/** The counts of a whole range as one. */
export const wholeOf = (bins: ReadonlyArray<Bin>): Bin => {
  const whole = new Bin()
  for (const bin of bins) whole.add(bin)
  return whole
}

export const waitedOf = (bins: Iterable<Bin>): SparseHistogram => {
  const all: SparseHistogram = new Map()
  for (const { waited } of bins) addSparse(all, waited)
  return all
}
