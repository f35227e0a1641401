/**
 * Add → handler → result stored → completed, in one process. `end-to-end.js <port> <jobs> <concurrency> [handler ms]`
 */
import { Queue, Worker } from "bullmq"
import { begin, counter, inBatches, nap, PAYLOAD, report, rssMiB } from "../../programs/program.js"
import { at, fail, NAME } from "./queue.js"

const [port, jobsText = "50000", concurrency = "150", napText = "0"] = process.argv.slice(2)
const jobs = Number(jobsText)
const napMs = Number(napText)
const queue = new Queue(NAME, at(port))
const settled = counter()
/** @param {import("bullmq").Job} job */
const handle = async (job) => {
  if (napMs > 0) await nap(napMs)
  return { n: job.data.n }
}
const worker = new Worker(NAME, handle, { ...at(port), concurrency: Number(concurrency) })
worker.on("completed", settled.add)
worker.on("error", fail)
await Promise.all([worker.waitUntilReady(), queue.waitUntilReady()])

/** @param {number} count */
const cycle = async (count) => {
  const done = settled.reach(count)
  const began = performance.now()
  await inBatches(count, async (from, size) => {
    await queue.addBulk(
      Array.from({ length: size }, (_, each) => ({ name: "run", data: { n: from + each, payload: PAYLOAD } })),
    )
  })
  return count / (((await done) - began) / 1_000)
}

await cycle(Math.min(5_000, jobs))
for (const { returnvalue } of await queue.getCompleted(0, 50)) {
  if (typeof returnvalue !== "object" || returnvalue === null) throw new Error("a job has no result")
}
await begin()
const perSecond = await cycle(jobs)
report({ jobs, perSecond, rssMiB: rssMiB() })
