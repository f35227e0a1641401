/**
 * A service whose start waits at one step, for a test that stops it there: `slow-start.ts <sqlite URL> <step>`. At `name`
 * the store answers only after the signal that the name of the worker is written, at `actor` the actor never starts.
 * Prints where it is, and what its actor releases.
 */
import { actor, serve } from "callboard"
import { plugin as driver } from "../../plugins/sqlite/mod.ts"
import { WORKERS } from "../../runtime/cluster/directory.ts"
import { lift } from "../../runtime/transport/lift/lift.ts"
import type { LiftedPlugin } from "../../runtime/transport/lift/plugin.ts"

const [transport = "", step = "name"] = process.argv.slice(2)

// Listened for from here on, so that the answer comes just after the signal, however slow the machine is.
const signalled = new Promise<void>((resolve) => process.once("SIGTERM", () => resolve()))

const slow: LiftedPlugin = {
  schemes: ["slow"],
  connect: async (url, options) => {
    const inner = lift(await driver.connect(url, options), options)
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
    // Keeps the process alive, as a connection that is tried again and again does.
    return new Promise((resolve) => setTimeout(resolve, 3_600_000))
  },
  methods: { run: () => null },
})

const service = await serve({ transport, transports: { slow }, actors: [resource], name: "slow", logFormat: "logfmt" })
await service.stopped
console.log(`stopped with ${service.worker === undefined ? "no worker" : "its worker"}`)
