/**
 * Jobs that are due later, all of which wait before the first one is: how fast they are submitted, and how late they
 * start. `scheduled.ts <transport> <jobs> <ms until the first is due> <ms until the last is, from then>`
 */
import { actor, serve } from "callboard"
import { begin, inBatches, quantiles, report, rssMiB } from "./program.js"

const [transport = "memory:", jobsText = "100000", leadText = "20000", overText = "20000"] = process.argv.slice(2)
const jobs = Number(jobsText)

const late: Array<number> = []
const all = Promise.withResolvers<void>()
const later = actor("later", {
  methods: {
    run: async ({ due }: { due: number }) => {
      late.push(Date.now() - due)
      if (late.length === jobs) all.resolve()
    },
  },
})
const service = await serve({ transport, actors: [later], concurrency: 200, logLevel: "warn", signals: false })
await service.ready()
await begin()
const began = Date.now()
const dueAt = (n: number): number => began + Number(leadText) + Math.floor((n * Number(overText)) / jobs)
await inBatches(jobs, async (from, size) => {
  const tasks = Array.from({ length: size }, (_, at) => {
    const due = dueAt(from + at)
    return { task: "later.run", input: { due }, eta: new Date(due).toISOString() }
  })
  for (const answer of await service.client.submitMany(tasks)) if (answer instanceof Error) throw answer
})
const submitSeconds = (Date.now() - began) / 1_000
await all.promise
const early = late.filter((ms) => ms < 0).length
report({ jobs, submitPerSecond: jobs / submitSeconds, early, ...quantiles(late), rssMiB: rssMiB() })
