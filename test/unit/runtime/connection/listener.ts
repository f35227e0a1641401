/**
 * A process that only listens, for tests: `listener.ts <transport> <listen | events>`. It says that it listens, on SIGUSR2
 * what this has cost since, and on SIGTERM closes its client and has nothing left to do.
 */
import { connect } from "callboard"

const [target = "", what = ""] = process.argv.slice(2)
const client = await connect(target)
const never = new AbortController().signal

const follow = async (): Promise<void> => {
  for await (const { event } of client.events(never)) console.log(event.type)
  console.log("ended")
}
const listening = what === "events" ? follow() : client.listen((event) => console.log(event.type), never)
if (what === "listen") await listening

const before = process.cpuUsage()
process.on("SIGUSR2", () => {
  const { user, system } = process.cpuUsage(before)
  console.log(`used ${Math.round((user + system) / 1_000)} ms`)
})
process.on("SIGTERM", () => void client.close())
console.log("ready")
// Waits at the top level, as programs do that only listen.
await (what === "events" ? listening : new Promise<void>((resolve) => process.once("SIGTERM", () => resolve())))
