/** A worker alone, which begins when it is told to: see ../../programs/worker.ts. `worker.js <port> <concurrency> [handler ms]` */
import { Worker } from "bullmq"
import { begin, nap, progress } from "../../programs/program.js"
import { at, fail, NAME } from "./queue.js"

const [port, concurrency = "150", napText = "0"] = process.argv.slice(2)
const napMs = Number(napText)
/** @param {import("bullmq").Job} job */
const handle = async (job) => {
  if (napMs > 0) await nap(napMs)
  return { n: job.data.n }
}
await begin()
const settled = progress()
const worker = new Worker(NAME, handle, { ...at(port), concurrency: Number(concurrency) })
worker.on("completed", settled.add)
worker.on("error", fail)
await worker.waitUntilReady()
settled.show()
