/** The arithmetic of the benchmark's tables. */
import { expect, test } from "vitest"
import { ticksIn } from "../harness/processor-time.ts"
import { dividedByJobs, growth, median, perJob, ratios, spread } from "./figures.ts"

test("the median is the middle of the sorted list, and of an even one the middle of both", () => {
  expect(median([300, 20, 1_000])).toBe(300)
  expect(median([4, 1, 3, 100])).toBe(3.5)
  expect(median([7])).toBe(7)
})

test("a spread leaves out the rounds without the figure", () => {
  expect(spread([9, undefined, 10, 100, Number.NaN])).toEqual({ median: 10, min: 9, max: 100 })
  expect(spread([undefined, undefined])).toBeUndefined()
})

test("processor time is divided by the jobs, of client and broker apart and together", () => {
  const figures = perJob({ jobs: 2_000, perSecond: 5, clientMicros: 128_000, brokerMicros: 74_000 })
  expect(figures).toEqual({ jobs: 2_000, perSecond: 5, client: 64, broker: 37, both: 101 })
  // Without a broker the client's time is all there is.
  expect(perJob({ jobs: 10, clientMicros: 300 })).toEqual({ jobs: 10, client: 30, both: 30 })
  expect(perJob({ rssMiB: 3, clientMicros: 5, brokerMicros: 5 })).toEqual({
    rssMiB: 3,
    clientMicros: 5,
    brokerMicros: 5,
  })
})

test("a ratio is taken round by round, of the best of the others in that round", () => {
  const node = [10, 40, 10]
  const bun = [20, 20, undefined]
  expect(ratios([10, 20, 5], [node, bun], "more")).toEqual([0.5, 0.5, 0.5])
  expect(ratios([10, 20, 5], [node, bun], "less")).toEqual([1, 1, 0.5])
})

test("a round in which one of both was not measured has no ratio", () => {
  expect(ratios([10, undefined, 10], [[undefined, 20, 5]], "more")).toEqual([undefined, undefined, 2])
  expect(ratios([10], [], "more")).toEqual([undefined])
})

test("the ticks of a process are read behind its name, whatever that is, with those of its ended children", () => {
  const counted = "4 5 6 7 8 9 10 100 20 3 4 20 0 11 0"
  expect(ticksIn(`42 (a) b (c) S 1 2 3 ${counted}`)).toBe(100 + 20 + 3 + 4)
})

test("counters of a board are told by how much they grow, for each job", () => {
  const figures = {
    jobs: 2_000,
    perSecond: 5,
    ...growth({ writes: 7, kept: 100 }, { writes: 6_007, kept: 100, disk: 500 }),
  }
  expect(dividedByJobs(figures, ["writes", "kept", "disk", "absent"])).toEqual({
    jobs: 2_000,
    perSecond: 5,
    writes: 3,
    kept: 0,
    disk: 0.25,
  })
})
