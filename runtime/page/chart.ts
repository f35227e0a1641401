/** Computes the bars of the chart of ended jobs: heights in units of its SVG, widths as fractions. Pure. */
import type { Points, Series } from "../statistics/schema.ts"

/** Numbers of jobs over time, by their outcome. */
export interface Outcomes extends Omit<Series, "series"> {
  readonly series: ReadonlyArray<{ readonly key: string; readonly points: Points }>
}

/** The line from which bars of successes rise and bars of failures hang, and the height for each. */
export const BASE = 118
const UP = 96
const DOWN = 50

export interface Bar {
  readonly x: number
  readonly width: number
  readonly ok: number
  readonly failed: number
  readonly other: number
}

/** The next round number: 1, 2, 5, 10, 20 … */
export const roundUp = (n: number): number => {
  if (n <= 1) return 1
  const size = 10 ** Math.floor(Math.log10(n))
  return [1, 2, 5, 10].map((step) => step * size).find((step) => step >= n) ?? n
}

export interface Chart {
  readonly bars: ReadonlyArray<Bar>
  /** The values at the upper and at the lower edge. */
  readonly up: number
  readonly down: number
  /** The totals, for the sentence that screen readers read. */
  readonly total: { readonly ok: number; readonly failed: number; readonly other: number }
}

const pointsOf = ({ series }: Outcomes, key: string): Points => series.find((each) => each.key === key)?.points ?? []

const sum = (points: Points): number => points.reduce<number>((all, each) => all + (each ?? 0), 0)

/**
 * The bars of a series by outcome. Failures have a scale of their own, so that 12 among 700,000 successes are visible.
 */
export const chartOf = (series: Outcomes): Chart => {
  const [ok, failed, other] = ["ok", "failed", "other"].map((key) => pointsOf(series, key))
  const length = Math.max(ok?.length ?? 0, failed?.length ?? 0, other?.length ?? 0)
  const at = (points: ReadonlyArray<number | null> | undefined, index: number): number => points?.[index] ?? 0
  const indexes = Array.from({ length }, (_, index) => index)
  const up = roundUp(Math.max(0, ...indexes.map((index) => at(ok, index))))
  const down = roundUp(Math.max(0, ...indexes.map((index) => at(failed, index) + at(other, index))))
  const height = (value: number, scale: number, room: number): number =>
    value === 0 ? 0 : Math.max(2, (value / scale) * room)
  return {
    up,
    down,
    total: { ok: sum(ok ?? []), failed: sum(failed ?? []), other: sum(other ?? []) },
    bars: indexes.map((index) => ({
      x: (index + 0.11) / length,
      width: 0.78 / length,
      ok: height(at(ok, index), up, UP),
      failed: height(at(failed, index), down, DOWN),
      other: height(at(other, index), down, DOWN),
    })),
  }
}

/** The position of a moment between the edges as a fraction; `undefined` outside of them. */
export const placeOf = ({ from, to }: Pick<Series, "from" | "to">, at: string): number | undefined => {
  const [begin, end, moment] = [from, to, at].map((time) => Date.parse(time))
  if (begin === undefined || end === undefined || moment === undefined || !(end > begin)) return undefined
  const part = (moment - begin) / (end - begin)
  return part >= 0 && part <= 1 ? part : undefined
}
