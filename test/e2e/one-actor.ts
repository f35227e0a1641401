/** A service of one actor in a process of its own: `one-actor.ts <transport> <actor> <options as JSON>`. */
import { actor, serve } from "callboard"

const [transport = "", name = "", options = "{}"] = process.argv.slice(2)
const nap = ({ ms }: { readonly ms: number }) => new Promise((resolve) => setTimeout(resolve, ms))
const service = await serve({
  transport,
  actors: [actor(name, { methods: { run: nap } })],
  logFormat: "logfmt",
  ...JSON.parse(options),
})
await service.ready()
console.log(`ready ${process.pid}`)
const error = await Promise.race([service.failed, service.stopped.then(() => undefined)])
if (error !== undefined) process.exit(1)
