/** Submits one task, prints `accepted` and the id, and stays: `submit.ts <transport> <task>`, in a process of its own. */
import { connect } from "callboard"

const [transport = "", task = ""] = process.argv.slice(2)
const client = await connect(transport)
const job = await client.submit(task)
console.log(`accepted ${job.id}`)
// The process stays until it is killed, to show that the job runs without it.
setInterval(() => undefined, 1_000)
