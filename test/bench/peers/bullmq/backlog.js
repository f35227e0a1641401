/** Memory of a worker that works on a backlog: see ../../programs/backlog.ts. `backlog.js <port> <jobs to work>` */
import { Worker } from "bullmq"
import { begin, report, rssMiB } from "../../programs/program.js"
import { at, fail, NAME } from "./queue.js"

const [port, jobsText = "1000"] = process.argv.slice(2)
const jobs = Number(jobsText)
let ended = 0
await begin()
const worker = new Worker(NAME, async (job) => ({ n: job.data.n }), { ...at(port), concurrency: 150 })
worker.on("error", fail)
worker.on("completed", () => {
  if (++ended === jobs) report({ jobs, rssMiB: rssMiB() })
})
