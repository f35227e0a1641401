/**
 * Measures durable steps: `steps.ts <transport> <flows>`. In each of some rounds the bare compare-and-sets that they
 * consist of run first, then the flows.
 */
import { actor, serve } from "callboard"
import { generateId } from "../../../runtime/id.ts"
import { journalPrefix, pageKey } from "../../../runtime/steps/page.ts"
import { begin, quantiles, report, rssMiB } from "./program.js"

const [transport = "memory:", text = "64", rounds = "5"] = process.argv.slice(2)
const flows = Number(text)
const STEPS = 100
const RESUMED = 1_000

/** Milliseconds from the handler's begin to the first new step, after many that are done. */
const resumed = Promise.withResolvers<number>()
const scene = actor("scene", {
  methods: {
    flow: async (_input: unknown, job) => {
      for (let n = 0; n < STEPS; n++) await job.step(`s${n}`, () => n)
    },
    /** Gives the milliseconds of each step. */
    timed: async (_input: unknown, job) => {
      const took: Array<number> = []
      for (let n = 0; n < RESUMED; n++) {
        const began = performance.now()
        await job.step(`s${n}`, () => n)
        took.push(performance.now() - began)
      }
      return took
    },
    long: {
      retry: { max: 1, interval: 0 },
      run: async (_input: unknown, job) => {
        const began = performance.now()
        for (let n = 0; n < RESUMED; n++) await job.step(`s${n}`, () => n)
        if (job.retries === 0) throw new Error("once more")
        await job.step("new", () => resumed.resolve(performance.now() - began))
      },
    },
  },
})
const service = await serve({ transport, actors: [scene], concurrency: flows, logLevel: "none", signals: false })
await service.ready()
const { client } = service
const { store } = client.connection

/** Writes the same pages as a flow does, under keys of the same form, without anything around them. */
const chain = async (): Promise<void> => {
  const encoder = new TextEncoder()
  // Not where journals are: workers would look for the jobs.
  const prefix = journalPrefix(generateId(), 1).replace("flow/", "bare/")
  const by = generateId()
  let revision = ""
  for (let n = 0, entries: Array<string> = []; n < STEPS; n++) {
    entries.push(JSON.stringify({ kind: "ok", step: `s${n}`, at: Date.now(), took: 0, tries: 1, value: n }))
    const value = encoder.encode(`{"v":2,"by":"${by}","n":${n},"entries":[${entries.join(",")}]}`)
    const key = pageKey(prefix, Math.floor(n / 32))
    const written = await store.write([{ key, value, expect: revision }])
    if (written === "conflict") throw new Error(`${key} was written by something else`)
    revision = n % 32 === 31 ? "" : (written[0] ?? "")
    if (revision === "") entries = []
  }
}

const perSecond = async (work: () => Promise<unknown>): Promise<number> => {
  const began = performance.now()
  await Promise.all(Array.from({ length: flows }, work))
  return (flows * STEPS) / ((performance.now() - began) / 1_000)
}
const flow = async () => (await client.submit("scene.flow")).outcome({ timeout: 300 })
const round = async () => {
  const bare = await perSecond(chain)
  const perSecondOf = await perSecond(flow)
  return { bare, perSecond: perSecondOf, ofBare: perSecondOf / bare }
}
for (let n = 0; n < 5; n++) await round()
await begin()
const all: Array<Awaited<ReturnType<typeof round>>> = []
while (all.length < Number(rounds)) all.push(await round())
const median = (of: keyof (typeof all)[number]) => quantiles(all.map((each) => each[of])).p50
const timed = await (await client.actor<typeof scene>("scene").timed.submit({})).result({ timeout: 300 })
await client.submit("scene.long")
const resumeMs = await resumed.promise
report({
  jobs: flows,
  perSecond: median("perSecond"),
  bare: median("bare"),
  ofBare: median("ofBare"),
  stepMs: quantiles(timed).p50,
  resumeMs,
  rssMiB: rssMiB(),
})
