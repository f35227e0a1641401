/** A process that only submits: some jobs to warm up, then those that count. `submit.ts <transport> <warm-up> <jobs>` */
import { connect } from "callboard"
import { begin, inBatches, PAYLOAD, report } from "./program.js"

const [transport = "", warmText = "0", jobsText = "50000"] = process.argv.slice(2)
const jobs = Number(jobsText)
const client = await connect(transport)

const submit = (count: number): Promise<void> =>
  inBatches(count, async (from, size) => {
    const tasks = Array.from({ length: size }, (_, at) => ({
      task: "noop.run",
      input: { n: from + at, payload: PAYLOAD },
    }))
    for (const answer of await client.submitMany(tasks)) if (answer instanceof Error) throw answer
  })

await submit(Number(warmText))
await begin()
const began = Date.now()
await submit(jobs)
const ended = Date.now()
report({ jobs, began, submitPerSecond: jobs / ((ended - began) / 1_000) })
