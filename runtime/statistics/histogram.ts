/**
 * Histograms of durations: 8 steps for each doubling, so that a percentile is at most 5 % off. They are added to each other
 * bucket by bucket, whichever worker and minute they come from.
 */
import type { Percentiles } from "./schema.ts"

const STEPS = 8
/** The first bucket holds what takes less than this, in milliseconds. */
const MIN_MS = 1 / 16
const SHIFT = 1 - STEPS * Math.log2(MIN_MS)

/** The last bucket begins at about 6 days. */
export const BUCKETS = 300

/** The bucket of a duration in milliseconds. */
export const bucketOf = (ms: number): number =>
  ms < MIN_MS ? 0 : Math.min(Math.floor(STEPS * Math.log2(ms) + SHIFT), BUCKETS - 1)

/** The duration that stands for a bucket, in milliseconds: the middle between its bounds, by their ratio. */
export const middleOf = (bucket: number): number => (bucket === 0 ? 0 : 2 ** ((bucket - SHIFT + 0.5) / STEPS))

/** How often each bucket was met. */
export type SparseHistogram = Map<number, number>

/** Most buckets that are written of one histogram. Beyond it neighbours are put together, which makes it coarser. */
const MAX_WRITTEN = 64

/** A histogram as text: `12:3 13 15:2` (the number of a bucket that was met once is left out). */
export const histogramText = (counts: ArrayLike<number>): string => {
  for (let width = 1; ; width *= 2) {
    const parts: Array<string> = []
    for (let at = 0; at < counts.length; at += width) {
      let count = 0
      for (let each = at; each < Math.min(at + width, counts.length); each++) count += counts[each] ?? 0
      const bucket = Math.min(at + (width >> 1), counts.length - 1)
      if (count > 0) parts.push(count === 1 ? String(bucket) : `${bucket}:${count}`)
    }
    if (parts.length <= MAX_WRITTEN) return parts.join(" ")
  }
}

/** Adds a histogram that {@link histogramText} wrote. What is no histogram is left out. */
export const addHistogram = (to: SparseHistogram, text: string): void => {
  for (const part of text.split(" ")) {
    if (part === "") continue
    const colon = part.indexOf(":")
    const bucket = Number(colon < 0 ? part : part.slice(0, colon))
    const count = colon < 0 ? 1 : Number(part.slice(colon + 1))
    if (Number.isInteger(bucket) && bucket >= 0 && bucket < BUCKETS && Number.isSafeInteger(count) && count > 0)
      to.set(bucket, (to.get(bucket) ?? 0) + count)
  }
}

export const addSparse = (to: SparseHistogram, from: SparseHistogram): void => {
  for (const [bucket, count] of from) to.set(bucket, (to.get(bucket) ?? 0) + count)
}

/** `undefined` where nothing was measured. */
export const percentilesOf = (histogram: SparseHistogram): Percentiles | undefined => {
  const buckets = [...histogram].sort(([a], [b]) => a - b)
  const total = buckets.reduce((sum, [, count]) => sum + count, 0)
  if (total === 0) return undefined
  const at = (share: number): number => {
    let left = Math.ceil(share * total)
    for (const [bucket, count] of buckets) {
      left -= count
      if (left <= 0) return seconds(middleOf(bucket))
    }
    return 0
  }
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99) }
}

/** Milliseconds as seconds, with four digits. */
const seconds = (ms: number): number => Number((ms / 1_000).toPrecision(4))

/** The sum of all durations, in milliseconds, as far as the buckets tell. */
export const sumOf = (histogram: SparseHistogram): number => {
  let sum = 0
  for (const [bucket, count] of histogram) sum += middleOf(bucket) * count
  return sum
}
