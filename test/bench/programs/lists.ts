/**
 * How long lists and counts take on a board with many jobs: nearly all of them have succeeded, one in a hundred has failed,
 * and as many wait. `lists.ts <transport> <jobs>`
 */
import { actor, type Client, serve } from "callboard"
import { begin, quantiles, report } from "./program.js"

const [transport = "memory:", jobsText = "1000"] = process.argv.slice(2)
const jobs = Number(jobsText)
const BATCH = 1_000
const TRIES = 30

const noop = actor("noop", {
  methods: {
    fine: async () => null,
    fails: async () => {
      throw new Error("no")
    },
  },
})
let settled = 0
const service = await serve({
  transport,
  actors: [noop],
  concurrency: 200,
  logLevel: "none",
  signals: false,
  queues: ["most", "few"],
  onSettled: () => void settled++,
})
await service.ready()
const { client } = service

const taskAt = (at: number) =>
  at % 100 === 0
    ? { task: "noop.fails", queue: at % 1_000 === 0 ? "few" : "most" }
    : { task: "noop.fine", queue: "most" }
for (let from = 0; from < jobs; from += BATCH) {
  await client.submitMany(Array.from({ length: Math.min(BATCH, jobs - from) }, (_, at) => taskAt(from + at)))
  while (settled < from - 5 * BATCH) await new Promise((wake) => setTimeout(wake, 5))
}
while (settled < jobs) await new Promise((wake) => setTimeout(wake, 10))
await client.submitMany(Array.from({ length: jobs / 100 }, () => ({ task: "noop.fine", queue: "waiting" })))

const failed = ["failed"] as const
/** What the page gives each list. */
const page = { limit: 50, budget: "50ms" } as const
const questions: Readonly<Record<string, (client: Client) => Promise<unknown>>> = {
  failed: (each) => each.jobs({ ...page, states: failed }),
  few: (each) => each.jobs({ ...page, states: failed, queue: "few" }),
  task: (each) => each.jobs({ ...page, states: failed, task: "noop.fails" }),
  newest: (each) => each.jobs(page),
  waiting: (each) => each.jobs({ ...page, states: ["queued"] }),
  count: (each) => each.count({ states: failed }),
  succeeded: (each) => each.count({ states: ["succeeded"] }),
  queues: (each) => each.queues(),
}

await begin()
const medians: Record<string, number> = {}
let slowest = 0
for (const [name, ask] of Object.entries(questions)) {
  const times: Array<number> = []
  for (let n = 0; n < TRIES; n++) {
    const began = performance.now()
    await ask(client)
    times.push(performance.now() - began)
  }
  const warm = times.slice(3)
  medians[name] = quantiles(warm).p50
  slowest = Math.max(slowest, ...warm)
}
report({ jobs: TRIES * Object.keys(questions).length, ...medians, slowest })
