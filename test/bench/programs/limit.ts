/**
 * What a limit costs: jobs of 5 ms each, ten at a time, by a limit or by the worker alone.
 * `limit.ts <transport> limited|free <jobs>`
 */
import { actor, serve } from "callboard"
import { begin, inBatches, nap, report } from "./program.js"

const [transport = "memory:", how = "free", jobsText = "2000"] = process.argv.slice(2)
const jobs = Number(jobsText)
const AT_A_TIME = 10

let ended = 0
let began = 0
let running = 0
let max = 0
const all = Promise.withResolvers<number>()
const pause = actor("pause", {
  methods: {
    run: {
      ...(how === "limited" ? { limit: { concurrency: AT_A_TIME } } : {}),
      run: async () => {
        began ||= performance.now()
        max = Math.max(max, ++running)
        await nap(5)
        running--
        if (++ended === jobs) all.resolve(performance.now())
      },
    },
  },
})
const service = await serve({
  transport,
  actors: [pause],
  concurrency: how === "limited" ? 20 : AT_A_TIME,
  logLevel: "warn",
  signals: false,
})
await service.ready()
await begin()
await inBatches(jobs, async (_, size) => {
  for (const answer of await service.client.submitMany(Array.from({ length: size }, () => ({ task: "pause.run" })))) {
    if (answer instanceof Error) throw answer
  }
})
const perSecond = jobs / (((await all.promise) - began) / 1_000)
if (max > AT_A_TIME) throw new Error(`${max} jobs ran at a time, and ${AT_A_TIME} may`)
report({ jobs, perSecond })
