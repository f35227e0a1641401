/**
 * Submit to result on an idle board, one at a time. `same`: a worker in this process; `other`: in another one.
 * `round-trip.ts <transport> same|other <jobs> <ms between jobs>`
 */
import { actor, connect, serve } from "callboard"
import { begin, nap, PAYLOAD, quantiles, report } from "./program.js"

const [transport = "memory:", where = "same", jobsText = "1000", gapText = "0"] = process.argv.slice(2)
const jobs = Number(jobsText)
const gapMs = Number(gapText)

const noop = actor("noop", { methods: { run: async (input: { n: number }) => ({ n: input.n }) } })
const open = async () => {
  if (where === "other") return connect(transport)
  const service = await serve({ transport, actors: [noop], concurrency: 4, logLevel: "warn", signals: false })
  await service.ready()
  return service.client
}
const client = await open()

const trips = async (count: number): Promise<ReadonlyArray<number>> => {
  const times: Array<number> = []
  for (let n = 0; n < count; n++) {
    if (gapMs > 0) await nap(gapMs)
    const began = performance.now()
    const job = await client.submit("noop.run", { input: { n, payload: PAYLOAD } })
    await job.result()
    times.push(performance.now() - began)
  }
  return times
}

await trips(100)
await begin()
report({ jobs, ...quantiles(await trips(jobs)) })
