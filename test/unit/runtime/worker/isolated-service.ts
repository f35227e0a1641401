/** A service with isolated actors, in a process of its own, for tests that kill it: `isolated-service.ts <transport>`. */
import { actor, serve } from "callboard"
import { isolated } from "./isolated-actor.ts"

/** In a file that serves whenever it is loaded: in the processes of this actor too. */
export const itself = actor("itself", {
  module: import.meta.url,
  isolation: "process",
  methods: { run: () => process.pid },
})

const [transport = ""] = process.argv.slice(2)
const service = await serve({ transport, actors: [isolated, itself], logFormat: "logfmt" })
await service.ready()
console.log("ready")
