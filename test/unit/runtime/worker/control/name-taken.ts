/** Two services of one name in a process that does nothing else, for a test that waits for its end: `name-taken.ts <transport>`. */
import { actor, serve } from "callboard"

const [transport = ""] = process.argv.slice(2)
const options = {
  transport,
  name: "same",
  actors: [actor("idle", { methods: { run: () => undefined } })],
  logLevel: "none",
  maxIdle: "1 hour",
} as const
const service = await serve(options)
await serve(options).catch((cause: unknown) => console.log(String(cause)))
await service.stop()
