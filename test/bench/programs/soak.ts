/**
 * A service under a steady load for minutes: what it needs of memory as time goes on, and how long jobs wait.
 * `soak.ts <transport> <jobs a second> <seconds>`
 */
import { actor, serve } from "callboard"
import { begin, nap, PAYLOAD, quantiles, report, rssMiB } from "./program.js"

const [transport = "memory:", perSecondText = "500", secondsText = "600"] = process.argv.slice(2)
const perSecond = Number(perSecondText)
const seconds = Number(secondsText)

let settled = 0
let waits: Array<number> = []
const steady = actor("steady", {
  methods: {
    run: async ({ at }: { at: number }) => {
      waits.push(performance.now() - at)
      return { at }
    },
  },
})
const service = await serve({
  transport,
  actors: [steady],
  concurrency: 50,
  logLevel: "warn",
  signals: false,
  onSettled: () => settled++,
})
await service.ready()

/** A tenth of a second's jobs. */
const submit = async (): Promise<number> => {
  const size = Math.ceil(perSecond / 10)
  const tasks = Array.from({ length: size }, () => ({
    task: "steady.run",
    input: { at: performance.now(), payload: PAYLOAD },
  }))
  for (const answer of await service.client.submitMany(tasks)) if (answer instanceof Error) throw answer
  return size
}

/** Submits for some seconds at the rate, and says how much memory was in use on average. */
const load = async (forSeconds: number): Promise<{ readonly jobs: number; readonly MiB: number }> => {
  const began = performance.now()
  let jobs = 0
  let sum = 0
  let looks = 0
  while (performance.now() < began + forSeconds * 1_000) {
    jobs += await submit()
    sum += rssMiB()
    looks++
    // By the clock, so that a slow submission is caught up with.
    await nap(Math.max(0, began + looks * 100 - performance.now()))
  }
  return { jobs, MiB: sum / looks }
}

await load(Math.min(10, seconds / 10))
await begin()
settled = 0
waits = []
const part = seconds / 5
const first = await load(part)
const middle = await load(3 * part)
const last = await load(part)
const jobs = first.jobs + middle.jobs + last.jobs
const deadline = performance.now() + 60_000
while (settled < jobs && performance.now() < deadline) await nap(10)
if (settled < jobs) throw new Error(`${settled} of ${jobs} jobs had settled a minute after the last one`)
report({ jobs, perSecond: jobs / seconds, ...quantiles(waits), firstMiB: first.MiB, lastMiB: last.MiB })
