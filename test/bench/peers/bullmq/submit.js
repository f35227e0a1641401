/** A process that only submits: some jobs to warm up, then those that count. `submit.js <port> <warm-up> <jobs>` */
import { Queue } from "bullmq"
import { begin, inBatches, PAYLOAD, report } from "../../programs/program.js"
import { at, NAME } from "./queue.js"

const [port, warmText = "0", jobsText = "50000"] = process.argv.slice(2)
const jobs = Number(jobsText)
const queue = new Queue(NAME, at(port))
await queue.waitUntilReady()

/** @param {number} count */
const submit = (count) =>
  inBatches(count, async (from, size) => {
    await queue.addBulk(
      Array.from({ length: size }, (_, each) => ({ name: "run", data: { n: from + each, payload: PAYLOAD } })),
    )
  })

await submit(Number(warmText))
await begin()
const began = Date.now()
await submit(jobs)
const ended = Date.now()
report({ jobs, began, submitPerSecond: jobs / ((ended - began) / 1_000) })
