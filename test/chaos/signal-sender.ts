/** Sends forty signals to a job at once, when it is told to: `signal-sender.ts <transport> <job> <name>`. */
import { once } from "node:events"
import { connect } from "callboard"

const [transport = "", id = "", name = ""] = process.argv.slice(2)
const client = await connect(transport)
const job = client.job(id)
console.log("ready")
await once(process.stdin, "data")
const twenty = Array.from({ length: 20 }, (_, at) => `${at}`)
await Promise.all([
  ...twenty.map((at) => job.signal("n", `${name} ${at}`)),
  ...twenty.map((at) => job.signal("n", `shared ${at}`, { key: at })),
])
console.log("sent")
process.exit(0)
