/** A worker for deaths around waits: `wait-worker.ts <transport> <options as JSON>`. */
import { actor, type Job, serve } from "callboard"
import * as Effect from "effect/Effect"

export interface WaitFlow {
  readonly n: number
}

/** Waits for two signals, sleeps and calls a job. */
const flow = async ({ n }: WaitFlow, job: Job) => {
  const a = await job.step("a", () => n)
  const one = await job.waitFor<string>("one", { timeout: "5 minutes" })
  const b = await job.step("b", () => a + 1)
  await job.sleep("nap", 1.1 + (n % 7) / 10)
  const two = await job.waitFor<string>("two", { timeout: "5 minutes" })
  const child = await job.call<number>("child", "flows.double", { input: { n: b } })
  return [one ?? "over", two ?? "over", child]
}

const flows = actor("flows", {
  module: import.meta.url,
  methods: {
    run: flow,
    apart: { isolation: "process", run: flow },
    effect: (input: WaitFlow, job) => Effect.promise(() => flow(input, job)),
    /** Takes this many signals of one name. */
    collect: async ({ n }: WaitFlow, job) => {
      const got: Array<unknown> = []
      while (got.length < n) got.push(await job.waitFor(`n/${got.length}`, { signal: "n" }))
      return got
    },
    double: ({ n }: WaitFlow) => n * 2,
    nap: async ({ n }: WaitFlow, job) => {
      await job.sleep("nap", n)
      return job.step("after", () => n)
    },
  },
})

const [transport = "", text = "{}"] = process.argv.slice(2)
const service = await serve({
  transport,
  actors: [flows],
  concurrency: 16,
  grace: 0,
  logLevel: "error",
  ...JSON.parse(text),
})
await service.ready()
console.log("ready")
await service.stopped
process.exit(0)
