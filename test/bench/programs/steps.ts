/** Measures durable steps, after the bare compare-and-sets that they consist of: `steps.ts <transport> <flows>`. */
import { actor, serve } from "callboard"
import { begin, report, rssMiB } from "./program.js"

const [transport = "memory:", text = "64"] = process.argv.slice(2)
const flows = Number(text)
const STEPS = 50
const RESUMED = 1_000

/** Milliseconds from the handler's begin to the first new step, after many that are done. */
const resumed = Promise.withResolvers<number>()
const scene = actor("scene", {
  methods: {
    flow: async (_input: unknown, job) => {
      for (let n = 0; n < STEPS; n++) await job.step(`s${n}`, () => n)
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

/** The same writes as a flow makes, without anything around them. */
const chain = async (name: string): Promise<void> => {
  const encoder = new TextEncoder()
  let revision = ""
  for (let n = 0, entries: Array<string> = []; n < STEPS; n++) {
    entries.push(JSON.stringify({ kind: "ok", step: `s${n}`, at: Date.now(), took: 0, tries: 1, value: n }))
    const value = encoder.encode(`{"v":1,"by":"bench","n":${n},"entries":[${entries.join(",")}]}`)
    const key = `chain/${name}/${Math.floor(n / 32)}`
    const written = await store.write([{ key, value, expect: revision }])
    if (written === "conflict") throw new Error(`${key} was written by something else`)
    revision = n % 32 === 31 ? "" : (written[0] ?? "")
    if (revision === "") entries = []
  }
}

const perSecond = async (work: (nth: number) => Promise<unknown>): Promise<number> => {
  const began = performance.now()
  await Promise.all(Array.from({ length: flows }, (_, nth) => work(nth)))
  return (flows * STEPS) / ((performance.now() - began) / 1_000)
}
const flow = async () => (await client.submit("scene.flow")).outcome({ timeout: 300 })
await perSecond((nth) => chain(`warm-${nth}`))
await perSecond(flow)
await begin()
const bare = await perSecond((nth) => chain(`${nth}`))
const steps = await perSecond(flow)
await client.submit("scene.long")
const resumeMs = await resumed.promise
report({ jobs: flows, perSecond: steps, bare, ofBare: steps / bare, resumeMs, rssMiB: rssMiB() })
