/**
 * Memory of a worker that works on a backlog, after the same number of jobs whatever the backlog.
 * `backlog.ts <transport> <jobs to work>`
 */
import { actor, serve } from "callboard"
import { begin, report, rssMiB } from "./program.js"

const [transport = "", jobsText = "1000"] = process.argv.slice(2)
const jobs = Number(jobsText)
const noop = actor("noop", { methods: { run: async (input: { n: number }) => ({ n: input.n }) } })
let ended = 0
await begin()
await serve({
  transport,
  actors: [noop],
  concurrency: 200,
  logLevel: "warn",
  signals: false,
  onSettled: () => {
    if (++ended === jobs) report({ jobs, rssMiB: rssMiB() })
  },
})
