/** The metrics of several processes as one: which are summed, which are not, and which stay after a process has ended. */
import { Counter, Gauge, Histogram, Registry } from "prom-client"
import { expect, test } from "vitest"
import { PoolMetrics } from "../../../../runtime/metrics/pool-metrics.ts"
import { Exposition } from "./exposition.ts"

/** The metrics of a process that has counted `jobs` jobs. */
const counted = async (jobs: number, { depth = 0, seconds = [] as ReadonlyArray<number> } = {}): Promise<string> => {
  const registry = new Registry()
  const registers = [registry]
  new Counter({ name: "jobs_total", help: "Jobs", labelNames: ["task"], registers }).inc({ task: 'a"b\n' }, jobs)
  new Gauge({ name: "running", help: "Running", registers }).set(jobs)
  new Gauge({ name: "depth", help: "Depth", aggregator: "max", labelNames: ["queue"], registers }).set(
    { queue: "q" },
    depth,
  )
  const times = new Histogram({ name: "seconds", help: "Seconds", labelNames: ["task"], buckets: [1, 5], registers })
  for (const each of seconds) times.observe({ task: "a" }, each)
  return JSON.stringify(await registry.getMetricsAsJSON())
}

const TASK = { task: 'a"b\n' }

test("counters, histograms and gauges are added up, what is of the board is not", async () => {
  const pool = new PoolMetrics(2, async () => ({ alive: 2, ready: 1 }))
  pool.report(0, await counted(2, { depth: 7, seconds: [0.5, 3] }))
  pool.report(1, await counted(3, { depth: 8, seconds: [9] }))
  const now = new Exposition(await pool.text())
  expect(now.value("jobs_total", TASK)).toBe(5)
  expect(now.value("running")).toBe(5)
  expect(now.value("depth", { queue: "q" })).toBe(8)
  expect(now.value("seconds_bucket", { task: "a", le: "1" })).toBe(1)
  expect(now.value("seconds_bucket", { task: "a", le: "5" })).toBe(2)
  expect(now.value("seconds_bucket", { task: "a", le: "+Inf" })).toBe(3)
  expect(now.value("seconds_sum", { task: "a" })).toBe(12.5)
  expect(now.value("callboard_pool_processes")).toBe(2)
  expect(now.value("callboard_pool_ready")).toBe(1)
})

test("of those that have ended counters and histograms stay, however many there were", async () => {
  const pool = new PoolMetrics(2, async () => ({ alive: 0, ready: 0 }))
  for (let died = 1; died <= 50; died++) {
    pool.report(died % 2, await counted(1))
    pool.report(died % 2, await counted(2, { depth: 1, seconds: [2] }))
    pool.end(died % 2)
    pool.end(died % 2)
    pool.restarted()
    const now = new Exposition(await pool.text())
    expect(now.value("jobs_total", TASK)).toBe(2 * died)
    expect(now.value("seconds_count", { task: "a" })).toBe(died)
    expect(now.value("running")).toBeUndefined()
    expect(now.value("depth", { queue: "q" })).toBeUndefined()
    expect(now.value("callboard_pool_restarts_total")).toBe(died)
  }
})

test("no sum falls by a last digit, whoever ends and comes back", async () => {
  const pool = new PoolMetrics(3, async () => ({ alive: 3, ready: 3 }))
  let before = 0
  for (let round = 0; round < 200; round++) {
    const at = round % 3
    pool.report(at, await counted(1, { seconds: [Math.random(), Math.random() * 100] }))
    for (const step of [() => undefined, () => pool.end(at)]) {
      step()
      const sum = new Exposition(await pool.text()).value("seconds_sum", { task: "a" }) ?? 0
      expect(sum).toBeGreaterThanOrEqual(before)
      before = sum
    }
  }
})

test.each(["", "{", "null", "[1]", '[{"name":"x"}]'])("what is no report (%j) changes nothing", async (text) => {
  const pool = new PoolMetrics(2, async () => ({ alive: 1, ready: 1 }))
  pool.report(0, await counted(1))
  pool.report(0, text)
  pool.report(7, text)
  expect(new Exposition(await pool.text()).value("jobs_total", TASK)).toBe(1)
})
