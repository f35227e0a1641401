/** An actor whose handlers run in processes of their own, with durable steps. */
import { appendFileSync } from "node:fs"
import { actor, forEach, type StepError } from "callboard"

export const isolated = actor("isolated", {
  module: import.meta.url,
  methods: {
    large: {
      isolation: "process",
      run: async ({ bytes }: { bytes: number }, job) => {
        const failed = await job.step("large", () => "x".repeat(bytes)).catch((cause: Error) => cause)
        const small = await job.step("small", () => "small")
        return failed instanceof Error ? [failed.name, failed.message, small] : "no error"
      },
    },
    waits: {
      isolation: "process",
      run: async ({ log }: { log: string }, job) => {
        await job.step("a", () => appendFileSync(log, `${process.pid}\n`))
        const value = await job.waitFor<number>("go")
        await job.sleep("nap", 1.5)
        const called = await job.call<number>("call", "isolated.echo", { input: { value } })
        appendFileSync(log, "end\n")
        return [value, called, job.attempt]
      },
    },
    scoped: {
      isolation: "process",
      run: async ({ log }: { log: string }, job) => {
        const say = (line: string) => appendFileSync(log, `${line}\n`)
        const history: Array<string> = []
        const { next, onFailure } = forEach(["eu", "us"])
        const region = await job.scope(
          "scope",
          async (inner, region) => {
            await inner.step("a", () => say(`a ${region}`), { revert: () => say(`-a ${region}`) })
            await inner.step("f", () => (region === "eu" ? Promise.reject(new RangeError("no")) : null))
            return region
          },
          {
            retry: {
              next,
              onFailure: (tries) => {
                history.push(...tries.map(({ error }) => error.name))
                return onFailure(tries)
              },
            },
          },
        )
        const last = await job
          .scope("last", () => Promise.reject(new RangeError("no")), { retry: forEach([1]) })
          .catch((error: StepError) => error.name)
        return [region, last, history]
      },
    },
    steps: {
      isolation: "process",
      run: async ({ log }: { log: string }, job) => {
        const say = (what: string) => appendFileSync(log, `${what} ${process.pid}\n`)
        await job.step("slow", async () => {
          say("begins")
          await new Promise((resolve) => setTimeout(resolve, 1_000))
          say("ends")
        })
        await job.step("next", () => say("next"))
        return job.attempt
      },
    },
    echo: { run: ({ value }: { value: number }) => value },
    stays: {
      isolation: "process",
      run: async ({ log }: { log: string }, job) => {
        await job.step("a", () => appendFileSync(log, `${process.pid}\n`), {
          revert: () => appendFileSync(log, "-a\n"),
        })
        await job.step("stays", () => new Promise<null>(() => undefined))
      },
    },
    between: {
      isolation: "process",
      run: async ({ log, heeds }: { log: string; heeds: boolean }, job) => {
        await job.step("a", () => appendFileSync(log, "a\n"), { revert: () => appendFileSync(log, "-a\n") })
        appendFileSync(log, "waits\n")
        await new Promise((_resolve, reject) => {
          if (heeds) job.signal.addEventListener("abort", () => reject(job.signal.reason))
        })
      },
    },
    saga: {
      isolation: "process",
      retry: { max: 1, interval: 0 },
      run: async ({ log, fails }: { log: string; fails: boolean }, job) => {
        const say = (line: string) => appendFileSync(log, `${line}\n`)
        const a = await job.step("a", () => say("a"), { revert: () => say("-a") })
        const large = await job.step("large", () => ({ text: "x".repeat(9_000) }))
        const error = await job
          .step("bad", () => Promise.reject(new RangeError("r")))
          .catch((cause: Error) => cause.name)
        await job.step("b", ({ key }) => say(key.endsWith("/b") ? "b" : key), { revert: ({ why }) => say(`-b ${why}`) })
        if (job.retries === 0) process.exit(3)
        if (fails)
          await job.step("wait", ({ signal }) => new Promise((told) => signal.addEventListener("abort", () => told(0))))
        return { a, large: large.text.length, error }
      },
    },
  },
})
