/** Jobs that are due later: see ../../programs/scheduled.ts. `scheduled.js <port> <jobs> <ms to the first> <ms over>` */
import { Queue, Worker } from "bullmq"
import { begin, inBatches, quantiles, report, rssMiB } from "../../programs/program.js"
import { at, fail, NAME } from "./queue.js"

const [port, jobsText = "100000", leadText = "20000", overText = "20000"] = process.argv.slice(2)
const jobs = Number(jobsText)
const queue = new Queue(NAME, at(port))

/** @type {number[]} */
const late = []
let finish = () => {}
const all = /** @type {Promise<void>} */ (
  new Promise((resolve) => {
    finish = resolve
  })
)
/** @param {import("bullmq").Job} job */
const handle = async (job) => {
  late.push(Date.now() - job.data.n)
  if (late.length === jobs) finish()
}
const worker = new Worker(NAME, handle, { ...at(port), concurrency: 150 })
worker.on("error", fail)
await Promise.all([worker.waitUntilReady(), queue.waitUntilReady()])
await begin()
const began = Date.now()
/** @param {number} n */
const dueAt = (n) => began + Number(leadText) + Math.floor((n * Number(overText)) / jobs)
await inBatches(jobs, async (from, size) => {
  const now = Date.now()
  await queue.addBulk(
    Array.from({ length: size }, (_, each) => {
      const due = dueAt(from + each)
      return { name: "run", data: { n: due }, opts: { delay: Math.max(0, due - now) } }
    }),
  )
})
const submitSeconds = (Date.now() - began) / 1_000
await all
const early = late.filter((ms) => ms < 0).length
report({ jobs, submitPerSecond: jobs / submitSeconds, early, ...quantiles(late), rssMiB: rssMiB() })
