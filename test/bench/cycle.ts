/**
 * Submit → executed no-op → result recorded → ended, in one process, through the whole runtime: prints jobs/s as JSON.
 * `cycle.ts <transport> [jobs] [concurrency]`
 */
import { actor, serve } from "callboard"

const [transport = "memory:", jobs = "50000", concurrency = "200"] = process.argv.slice(2)
const noop = actor("noop", { methods: { run: async () => null } })

let ended = 0
let reached: (() => void) | undefined
let goal = 0
const service = await serve({
  transport,
  actors: [noop],
  concurrency: Number(concurrency),
  logLevel: "warn",
  signals: false,
  onSettled: () => {
    if (++ended === goal) reached?.()
  },
})
await service.ready()

const CHUNK = 1_000
const task = { task: "noop", input: { payload: "x".repeat(232) } }

const run = async (count: number): Promise<number> => {
  ended = 0
  goal = count
  const done = new Promise<void>((resolve) => {
    reached = resolve
  })
  const began = performance.now()
  // Two batches are under way at a time, as a producer that cares for speed does it.
  let left = count
  const produce = async () => {
    while (left > 0) {
      const size = Math.min(CHUNK, left)
      left -= size
      for (const answer of await service.client.submitMany(Array.from({ length: size }, () => task))) {
        if (answer instanceof Error) throw answer
      }
    }
  }
  await Promise.all([produce(), produce()])
  await done
  return count / ((performance.now() - began) / 1000)
}

await run(5_000)
const cpuBefore = process.cpuUsage()
const jobsPerSecond = await run(Number(jobs))
const { user, system } = process.cpuUsage(cpuBefore)
await service.stop()
// Processor time tells more than the clock on a machine that others use as well.
const cpuMicrosPerJob = (user + system) / Number(jobs)
console.log(JSON.stringify({ jobsPerSecond, cpuMicrosPerJob, rssMiB: process.memoryUsage().rss / 2 ** 20 }))
process.exit(0)
