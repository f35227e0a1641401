/**
 * Add → handler → result stored → completed, in one process. `end-to-end.ts <memory|file> <jobs> <concurrency> [handler ms]`
 */
import { type Job, Queue, Worker } from "bunqueue/client"
import { begin, counter, inBatches, nap, PAYLOAD, report, rssMiB } from "../../programs/program.js"
import { placeOf } from "./place.ts"

const [where = "memory", jobsText = "50000", concurrency = "150", napText = "0"] = process.argv.slice(2)
const jobs = Number(jobsText)
const napMs = Number(napText)
const place = placeOf(where)
const queue = new Queue("noop", place)
const settled = counter()
const handle = async (job: Job) => {
  if (napMs > 0) await nap(napMs)
  return { n: job.data.n }
}
const worker = new Worker("noop", handle, { ...place, concurrency: Number(concurrency), batchSize: 200 })
worker.on("completed", settled.add)
worker.on("error", (error) => {
  throw error
})

const cycle = async (count: number, submitted: (id: string) => void = () => undefined): Promise<number> => {
  const done = settled.reach(count)
  const began = performance.now()
  await inBatches(count, async (from, size) => {
    const added = await queue.addBulk(
      Array.from({ length: size }, (_, at) => ({ name: "run", data: { n: from + at, payload: PAYLOAD } })),
    )
    for (const { id } of added) submitted(id)
  })
  return count / (((await done) - began) / 1_000)
}

const ids: Array<string> = []
await cycle(Math.min(5_000, jobs), (id) => ids.push(id))
for (const [at, id] of ids.entries()) {
  if (at % 100 !== 0) continue
  const job = await queue.getJob(id)
  if (typeof job?.returnvalue !== "object" || job.returnvalue === null) throw new Error(`job ${id} has no result`)
}
await begin()
const perSecond = await cycle(jobs)
report({ jobs, perSecond, rssMiB: rssMiB() })
