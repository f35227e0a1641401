/**
 * Add to result on an idle queue, one at a time. `same`: a worker in this process; `other`: in another one.
 * `round-trip.js <port> same|other <jobs> <ms between jobs>`
 */
import { Queue, QueueEvents, Worker } from "bullmq"
import { begin, nap, PAYLOAD, quantiles, report } from "../../programs/program.js"
import { at, fail, NAME } from "./queue.js"

const [port, where = "same", jobsText = "1000", gapText = "0"] = process.argv.slice(2)
const jobs = Number(jobsText)
const gapMs = Number(gapText)
const queue = new Queue(NAME, at(port))
const events = new QueueEvents(NAME, at(port))
if (where === "same") {
  const worker = new Worker(NAME, async (job) => ({ n: job.data.n }), { ...at(port), concurrency: 4 })
  worker.on("error", fail)
  await worker.waitUntilReady()
}
await Promise.all([events.waitUntilReady(), queue.waitUntilReady()])

/** @param {number} count */
const trips = async (count) => {
  const times = []
  for (let n = 0; n < count; n++) {
    if (gapMs > 0) await nap(gapMs)
    const began = performance.now()
    const job = await queue.add("run", { n, payload: PAYLOAD })
    await job.waitUntilFinished(events)
    times.push(performance.now() - began)
  }
  return times
}

await trips(100)
await begin()
report({ jobs, ...quantiles(await trips(jobs)) })
