/**
 * A worker for deaths in durable steps: `step-worker.ts <transport> <options as JSON>`. It kills itself, or waits, at one of its
 * writes, and prints a line for each of them.
 */
import { appendFileSync, existsSync } from "node:fs"
import { setTimeout as sleep } from "node:timers/promises"
import { actor, serve } from "callboard"
import { type BuiltinScheme, builtin } from "../../runtime/connection/builtin.ts"
import { overriding } from "../../runtime/testing/observed-transport.ts"
import type { Driver, Plugin } from "../../runtime/transport/driver.ts"
import { stepSessions } from "./step-flows.ts"

export interface StepWorkerOptions {
  readonly name: string
  readonly queue: string
  /** The write at which the worker dies or waits, counted from 0. Defaults to none. */
  readonly at?: number
  readonly when?: "before" | "after"
  /** The worker waits until this file exists instead of dying. */
  readonly until?: string
}

export interface StepInput {
  readonly flow: string
  /** File that gets a line for each step and each revert that begins, with the id of its process. */
  readonly ledger: string
  /** A step waits until this file exists. The worker that dies or waits does not wait for it. */
  readonly gate?: string
}

const [transport = "", text = "{}"] = process.argv.slice(2)
const { name, queue, at = -1, when, until }: StepWorkerOptions = JSON.parse(text)

const exists = async (file: string): Promise<void> => {
  while (!existsSync(file)) await sleep(10)
}

let writes = 0

const write = async <T>(isCounted: boolean, work: () => Promise<T>): Promise<T> => {
  if (!isCounted) return work()
  const nth = writes++
  if (nth !== at) {
    const answer = await work()
    console.log(`write ${nth}`)
    return answer
  }
  const strike = async () => {
    if (until === undefined) process.kill(process.pid, "SIGKILL")
    console.log("waits")
    await exists(until ?? "")
  }
  if (when === "before") await strike()
  try {
    return await work()
  } finally {
    if (when === "after") await strike()
    console.log("goes on")
  }
}

/** Counts commits that write a record, and writes of journals; at one of them the worker dies or waits. */
const mortal: Plugin = {
  schemes: ["mortal"],
  connect: async (url, options) => {
    const inner = new URL(url.href.replace(/^mortal:/, ""))
    const plugin = await builtin[inner.protocol.slice(0, -1) as BuiltinScheme]()
    const driver = (await plugin.connect(inner, options)) as Driver
    const { store } = driver
    return overriding(driver, {
      commit: (commits) =>
        write(
          commits.some(({ record }) => record !== undefined),
          () => driver.commit(commits),
        ),
      store: overriding(store, {
        write: (operations) =>
          write(
            operations.some(({ key }) => key.startsWith("flow/")),
            () => store.write(operations),
          ),
      }),
    })
  },
}

const flows = actor("flows", {
  methods: {
    run: async ({ flow, ledger, gate }: StepInput, job) => {
      const act = (what: string) => async () => {
        appendFileSync(ledger, `${what} ${process.pid}\n`)
        if (gate !== undefined && at < 0) await exists(gate)
        return what
      }
      return stepSessions[flow]?.run(job, act, (what) => ({ revert: act(`-${what}`) }))
    },
  },
})

const service = await serve({
  transport: `mortal:${transport}`,
  transports: { mortal },
  actors: [flows],
  queues: [queue],
  name,
  concurrency: 64,
  grace: 0,
  logLevel: "error",
})
await service.ready()
console.log("ready")
await service.stopped
process.exit(0)
