/**
 * A service whose start waits at one step, for a test that stops it there: `slow-start.ts <sqlite URL> <step>`. With `name` the
 * store answers the write of the worker's name only after SIGTERM has come; with `actor` the actor never starts. The program
 * prints the step at which it waits, and that its actor's resources are released.
 */
import { actor, serve } from "callboard"
import { plugin as driver } from "../../plugins/sqlite/mod.ts"
import { WORKERS } from "../../runtime/cluster/directory.ts"
import type { LiftedPlugin } from "../../runtime/transport/job-store/plugin.ts"
import { withJobs } from "../../runtime/transport/job-store/with-jobs.ts"

const [transport = "", step = "name"] = process.argv.slice(2)

// The listener is added before the write, so that the answer follows the signal also on a slow machine.
const signalled = new Promise<void>((resolve) => process.once("SIGTERM", () => resolve()))

const slow: LiftedPlugin = {
  schemes: ["slow"],
  connect: async (url, options) => {
    const inner = withJobs(await driver.connect(url, options), options)
    const { store } = inner
    if (store === undefined) throw new Error("this test needs a store")
    return {
      ...inner,
      store: {
        ...store,
        write: async (operations) => {
          const answer = await store.write(operations)
          if (step === "name" && operations.some(({ key }) => key === WORKERS.key("slow"))) {
            console.log("at name")
            await signalled
          }
          return answer
        },
      },
    }
  },
}

const resource = actor("resource", {
  start: (scope) => {
    scope.onStop(() => console.log("released"))
    if (step !== "actor") return undefined
    console.log("at actor")
    // A timer keeps the process alive, as a client that tries to connect again and again would.
    return new Promise((resolve) => setTimeout(resolve, 3_600_000))
  },
  methods: { run: () => null },
})

const service = await serve({ transport, transports: { slow }, actors: [resource], name: "slow", logFormat: "logfmt" })
await service.stopped
console.log(`stopped with ${service.worker === undefined ? "no worker" : "its worker"}`)
