/**
 * Measures lists, counts and the overview on a board with many jobs: nearly all of them have succeeded, one in a hundred has
 * failed, and the same number wait. The rare jobs are the oldest. `lists.ts <transport> <jobs>`
 */
import { setTimeout as sleep } from "node:timers/promises"
import { actor, type Client, serve } from "callboard"
import { begin, inBatches, quantiles, report } from "./program.js"

const [transport = "memory:", jobsText = "1000"] = process.argv.slice(2)
const jobs = Number(jobsText)
const TRIES = 30
/** Pause between two questions whose answers are shared for a second, in milliseconds: so each is counted anew. */
const SHARED_MS = 1_050
const SHARED_TRIES = 6
const RARE = 60

const noop = actor("noop", {
  methods: {
    fine: async () => null,
    fails: async () => {
      throw new Error("no")
    },
  },
})
const service = await serve({
  transport,
  actors: [noop],
  concurrency: 200,
  logLevel: "none",
  signals: false,
  queues: ["most", "few"],
})
await service.ready()
const { client } = service
const { connection } = client

/** The record of a job that has run. */
const recordOf = async (task: string) => {
  const job = await client.submit(task, { queue: "most" })
  await job.outcome({ timeout: 10 })
  const found = await connection.jobs.find(job.id)
  if (found === undefined) throw new Error(`the record of ${task} is gone`)
  return found.record
}
const [fine, fails] = [await recordOf("noop.fine"), await recordOf("noop.fails")]

const aside = { task: "aside.fine", queue: "aside" } as const
const links = { parentId: "parent", rootId: "root", group: "group" } as const
await client.submitMany(Array.from({ length: RARE }, () => ({ ...aside, ...links })))
// The records are copies of one that a worker has written: to run all these jobs would take far longer.
await inBatches(jobs, async (from, size) => {
  const copies = Array.from({ length: size }, (_, each) => {
    const at = from + each
    const id = crypto.randomUUID()
    const like = at % 100 === 0 ? fails : fine
    const queue = at % 1_000 === 0 ? "few" : "most"
    const times = { submittedAt: fine.submittedAt + at, endedAt: fine.submittedAt + at + 1 }
    const record = { ...like, ...times, id, queue, rootId: id, ...(at < RARE ? links : {}) }
    return { id, expect: "", record }
  })
  for (const answer of await connection.jobs.decide(copies)) {
    if (answer.status !== "decided") throw new Error(JSON.stringify(answer))
  }
})
await client.submitMany(Array.from({ length: jobs / 100 }, () => ({ task: "noop.fine", queue: "waiting" })))

const failed = ["failed"] as const
const queued = ["queued"] as const
/** The limit and the budget with which the page requests each list. */
const page = { limit: 50, budget: "50ms" } as const
type Question = (client: Client) => Promise<unknown>
const questions: Readonly<Record<string, Question>> = {
  failed: (each) => each.jobs({ ...page, states: failed }),
  few: (each) => each.jobs({ ...page, states: failed, queue: "few" }),
  task: (each) => each.jobs({ ...page, states: failed, task: "noop.fails" }),
  newest: (each) => each.jobs(page),
  fine: (each) => each.jobs({ ...page, states: ["succeeded"] }),
  waiting: (each) => each.jobs({ ...page, states: queued }),
  asideQueue: (each) => each.jobs({ ...page, states: queued, queue: aside.queue }),
  asideTask: (each) => each.jobs({ ...page, states: queued, task: aside.task }),
  root: (each) => each.jobs({ ...page, rootId: links.rootId }),
  parent: (each) => each.jobs({ ...page, parentId: links.parentId }),
  group: (each) => each.jobs({ ...page, group: links.group }),
  count: (each) => each.count({ states: failed }),
  succeeded: (each) => each.count({ states: ["succeeded"] }),
}
/** Questions whose answers are shared by all readers for a second. */
const shared: Readonly<Record<string, Question>> = {
  queues: (each) => each.statistics.queues(),
  pulse: (each) => each.statistics.counts(),
  stats: (each) => each.statistics.stats(3_600_000),
}

await begin()
const medians: Record<string, number> = {}
let slowest = 0
const measure = async (name: string, ask: Question, tries: number, pauseMs: number): Promise<void> => {
  const times: Array<number> = []
  for (let n = 0; n < tries; n++) {
    if (pauseMs > 0) await sleep(pauseMs)
    const began = performance.now()
    await ask(client)
    times.push(performance.now() - began)
  }
  const warm = times.slice(Math.floor(tries / 10))
  medians[name] = quantiles(warm).p50
  slowest = Math.max(slowest, ...warm)
}
for (const [name, ask] of Object.entries(questions)) await measure(name, ask, TRIES, 0)
for (const [name, ask] of Object.entries(shared)) await measure(name, ask, SHARED_TRIES, SHARED_MS)
report({ jobs: TRIES * Object.keys(questions).length, ...medians, slowest })
