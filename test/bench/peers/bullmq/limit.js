/**
 * What a limit costs: jobs of 5 ms each, ten at a time, by the concurrency of the whole queue or by that of the worker.
 * `limit.js <port> limited|free <jobs>`
 */
import { Queue, Worker } from "bullmq"
import { begin, inBatches, nap, report } from "../../programs/program.js"
import { at, fail, NAME } from "./queue.js"

const [port, how = "free", jobsText = "2000"] = process.argv.slice(2)
const jobs = Number(jobsText)
const AT_A_TIME = 10
const queue = new Queue(NAME, at(port))
if (how === "limited") await queue.setGlobalConcurrency(AT_A_TIME)

let ended = 0
let began = 0
let running = 0
let max = 0
/** @type {(at: number) => void} */
let reached = () => {}
/** @type {Promise<number>} */
const all = new Promise((resolve) => {
  reached = resolve
})
const handle = async () => {
  began ||= performance.now()
  max = Math.max(max, ++running)
  await nap(5)
  running--
  if (++ended === jobs) reached(performance.now())
}
const worker = new Worker(NAME, handle, { ...at(port), concurrency: how === "limited" ? 20 : AT_A_TIME })
worker.on("error", fail)
await Promise.all([worker.waitUntilReady(), queue.waitUntilReady()])
await begin()
await inBatches(jobs, async (_, size) => {
  await queue.addBulk(Array.from({ length: size }, (_, n) => ({ name: "run", data: { n } })))
})
const perSecond = jobs / (((await all) - began) / 1_000)
if (max > AT_A_TIME) throw new Error(`${max} jobs ran at a time, and ${AT_A_TIME} may`)
report({ jobs, perSecond })
