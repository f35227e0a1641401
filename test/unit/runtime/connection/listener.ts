/**
 * A process that only listens, for tests: `listener.ts <transport> <listen | events>`. It prints that it listens, on SIGUSR2
 * the CPU time since then, and on SIGTERM it closes its client, after which nothing keeps it alive.
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
// Awaits at the top level, as a program does that only listens.
await (what === "events" ? listening : new Promise<void>((resolve) => process.once("SIGTERM", () => resolve())))
