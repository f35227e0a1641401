/** How well the limiter of a worker keeps a rate while more jobs wait. `rate.js <port> <starts a second> <seconds>` */
import { Queue, Worker } from "bullmq"
import { begin, inBatches, nap, report } from "../../programs/program.js"
import { at, fail, NAME } from "./queue.js"

const [port, perSecondText = "10", secondsText = "60"] = process.argv.slice(2)
const perSecond = Number(perSecondText)
const seconds = Number(secondsText)
const queue = new Queue(NAME, at(port))

/** @type {number[]} */
const starts = []
let hasBegun = () => {}
const began = /** @type {Promise<void>} */ (
  new Promise((resolve) => {
    hasBegun = resolve
  })
)
const handle = async () => {
  starts.push(performance.now())
  hasBegun()
}
const limiter = { max: perSecond, duration: 1_000 }
const worker = new Worker(NAME, handle, { ...at(port), concurrency: 50, limiter })
worker.on("error", fail)
await Promise.all([worker.waitUntilReady(), queue.waitUntilReady()])
await begin()
await inBatches(Math.ceil(perSecond * seconds * 1.2) + 10, async (_, size) => {
  await queue.addBulk(Array.from({ length: size }, (_each, n) => ({ name: "run", data: { n } })))
})
await began
await nap(seconds * 1_000 + 500)
const end = (starts[0] ?? 0) + seconds * 1_000 - 500 / perSecond
report({ starts: starts.filter((time) => time < end).length })
