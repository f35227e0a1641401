/** Percentiles from histograms are close to the measured ones, for any values. */
import fc from "fast-check"
import { expect, test } from "vitest"
import {
  addHistogram,
  BUCKETS,
  bucketOf,
  histogramText,
  middleOf,
  percentilesOf,
  type SparseHistogram,
} from "../../../../runtime/statistics/histogram.ts"

const of = (...texts: ReadonlyArray<string>): SparseHistogram => {
  const sparse: SparseHistogram = new Map()
  for (const text of texts) addHistogram(sparse, text)
  return sparse
}

const textOf = (durations: ReadonlyArray<number>): string => {
  const counts = new Uint32Array(BUCKETS)
  for (const ms of durations) counts[bucketOf(ms)] = (counts[bucketOf(ms)] ?? 0) + 1
  return histogramText(counts)
}

test("a bucket stands for what is in it, 5 % off at most", () => {
  fc.assert(
    fc.property(fc.double({ min: 1 / 16, max: 5 * 86_400_000, noNaN: true }), (ms) => {
      const shown = middleOf(bucketOf(ms))
      expect(Math.abs(shown - ms) / ms).toBeLessThan(0.05)
    }),
  )
  expect([bucketOf(0), bucketOf(-5), bucketOf(0.01)]).toEqual([0, 0, 0])
  expect(bucketOf(Number.MAX_VALUE)).toBe(BUCKETS - 1)
})

test("percentiles of several workers are those of all that they measured", () => {
  const [slow, fast] = [[1_000, 2_000, 4_000], Array.from({ length: 97 }, (_, n) => 10 + n / 100)]
  const found = percentilesOf(of(textOf(slow), textOf(fast)))
  expect(found?.p50).toBeCloseTo(0.0105, 3)
  expect(found?.p95).toBeCloseTo(0.011, 3)
  expect(found?.p99).toBeGreaterThan(1.9)
  expect(found?.p99).toBeLessThan(2.1)
  expect(percentilesOf(of())).toBeUndefined()
})

test("a histogram with something in every bucket stays short", () => {
  const text = histogramText(new Uint32Array(BUCKETS).fill(1_000_000))
  expect(text.split(" ").length).toBeLessThanOrEqual(64)
  expect([...of(text).values()].reduce((sum, count) => sum + count, 0)).toBe(BUCKETS * 1_000_000)
})

test("text that is no histogram counts nothing", () => {
  expect([...of("", "x", "-1:4", "3:", "3:-2", "9999:1", "1e9", "3:4", "  ", "5:1e400")]).toEqual([[3, 4]])
})
