/**
 * Submit → handler → result stored → ended, in one process, over the public API.
 * `end-to-end.ts <transport> <jobs> <concurrency> [handler ms] [prefetch]`
 */
import { actor, serve } from "callboard"
import { begin, counter, inBatches, nap, PAYLOAD, report, rssMiB } from "./program.js"

const [transport = "memory:", jobsText = "50000", concurrency = "200", napText = "0", prefetch = "4"] =
  process.argv.slice(2)
const jobs = Number(jobsText)
const napMs = Number(napText)

const noop = actor("noop", {
  methods: {
    run: async (input: { n: number }) => {
      if (napMs > 0) await nap(napMs)
      return { n: input.n }
    },
  },
})

const settled = counter()
const service = await serve({
  transport,
  actors: [noop],
  concurrency: Number(concurrency),
  prefetch: Number(prefetch),
  logLevel: "warn",
  signals: false,
  onSettled: settled.add,
})
await service.ready()

const cycle = async (count: number, submitted: (id: string) => void = () => undefined): Promise<number> => {
  const done = settled.reach(count)
  const began = performance.now()
  await inBatches(count, async (from, size) => {
    const tasks = Array.from({ length: size }, (_, at) => ({
      task: "noop.run",
      input: { n: from + at, payload: PAYLOAD },
    }))
    for (const answer of await service.client.submitMany(tasks)) {
      if (answer instanceof Error) throw answer
      submitted(answer.id)
    }
  })
  return count / (((await done) - began) / 1_000)
}

const ids: Array<string> = []
await cycle(Math.min(5_000, jobs), (id) => ids.push(id))
// What is measured is worth nothing where results are not there.
for (const [at, id] of ids.entries()) {
  if (at % 100 !== 0) continue
  const result = await service.client.job(id).result({ timeout: 10 })
  if (typeof result !== "object" || result === null || !("n" in result)) throw new Error(`job ${id} has no result`)
}
await begin()
const perSecond = await cycle(jobs)
report({ jobs, perSecond, rssMiB: rssMiB() })
