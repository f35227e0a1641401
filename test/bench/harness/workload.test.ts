/** How the rows of a workload take turns, and what becomes of one that cannot be measured. */
import { expect, test } from "vitest"
import { type Contender, runWorkload, Unavailable, type Workload } from "./workload.ts"

const workloadOf = (contenders: ReadonlyArray<Contender>): Workload => ({
  name: "some",
  title: "Some",
  main: "perSecond",
  better: "more",
  columns: [{ key: "perSecond", title: "jobs/s" }],
  contenders,
})

const row = (name: string, run: () => Promise<Readonly<Record<string, number>>>): Contender => ({
  name,
  durability: "none",
  run,
})

test("rows are measured in turn, round by round", async () => {
  const order: Array<string> = []
  const counting = (name: string) => row(name, async () => ({ perSecond: order.push(name) }))
  const { rows } = await runWorkload(workloadOf([counting("ours"), counting("theirs")]), 3, () => {})
  expect(order).toEqual(["ours", "theirs", "ours", "theirs", "ours", "theirs"])
  expect(rows[0]?.rounds).toEqual([{ perSecond: 1 }, { perSecond: 3 }, { perSecond: 5 }])
})

test("a row that cannot be fetched stays in the table with the reason, and the others are measured", async () => {
  const missing = row("theirs", async () => {
    throw new Unavailable("Debian's package redis-server cannot be fetched: no archive")
  })
  const said: Array<string> = []
  const { rows } = await runWorkload(workloadOf([missing, row("ours", async () => ({ perSecond: 7 }))]), 2, (line) =>
    said.push(line),
  )
  expect(rows[0]?.rounds).toEqual([undefined, undefined])
  expect(rows[0]?.problem).toMatch(/^not measured: .*redis-server cannot be fetched: no archive$/)
  expect(rows[1]?.rounds).toEqual([{ perSecond: 7 }, { perSecond: 7 }])
  expect(said[0]).toContain("no archive")
})

test("a row that fails keeps the rounds before, and is told apart from one that is missing", async () => {
  let runs = 0
  const failing = row("ours", async () => {
    if (++runs === 2) throw new Error("a job was lost")
    return { perSecond: 5 }
  })
  const { rows } = await runWorkload(workloadOf([failing]), 3, () => {})
  expect(rows[0]?.rounds).toEqual([{ perSecond: 5 }, undefined, undefined])
  expect(rows[0]?.problem).toMatch(/^failed: .*a job was lost$/)
  expect(runs).toBe(2)
})
