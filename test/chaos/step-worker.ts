/**
 * A worker for deaths in durable steps: `step-worker.ts <transport> <options as JSON>`. It dies, or waits, at one of its
 * writes, and prints each of them.
 */
import { appendFileSync, existsSync } from "node:fs"
import { setTimeout as sleep } from "node:timers/promises"
import { actor, serve } from "callboard"
import { type BuiltinScheme, builtin } from "../../runtime/connection/builtin.ts"
import { overriding } from "../../runtime/testing/observed-transport.ts"
import type { Driver, Plugin } from "../../runtime/transport/driver.ts"
import { stepFlows } from "./step-flows.ts"

export interface StepWorkerOptions {
  readonly name: string
  readonly queue: string
  /** The write at which it dies or waits, counted from 0. Absent: it does neither. */
  readonly at?: number
  readonly when?: "before" | "after"
  /** It waits for this file instead of dying. */
  readonly until?: string
}

export interface StepInput {
  readonly flow: string
  /** Gets a line for each step and each revert that begins, with its process. */
  readonly ledger: string
  /** A step waits for this file, unless its worker is the one that dies or waits. */
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

/** Counts commits with a record, and writes of journals. */
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
      return stepFlows[flow]?.run(job, act, (what) => ({ revert: act(`-${what}`) }))
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
