/** Add to result on an idle queue, one at a time, in one process. `round-trip.ts <memory|file> <jobs> <ms between jobs>` */
import { Queue, QueueEvents, Worker } from "bunqueue/client"
import { begin, nap, PAYLOAD, quantiles, report } from "../../programs/program.js"
import { placeOf } from "./place.ts"

const [where = "memory", jobsText = "1000", gapText = "0"] = process.argv.slice(2)
const jobs = Number(jobsText)
const gapMs = Number(gapText)
const place = placeOf(where)
const queue = new Queue("noop", place)
const events = new QueueEvents("noop", place)
const worker = new Worker("noop", async (job) => ({ n: job.data.n }), { ...place, concurrency: 4 })
worker.on("error", (error) => {
  throw error
})
await events.waitUntilReady()

const trips = async (count: number): Promise<ReadonlyArray<number>> => {
  const times: Array<number> = []
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
