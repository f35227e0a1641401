/** Submits one task and says so, in a process of its own: `submit.ts <transport> <task>`. */
import { connect } from "callboard"

const [transport = "", task = ""] = process.argv.slice(2)
const client = await connect(transport)
const job = await client.submit(task)
console.log(`accepted ${job.id}`)
// Stays until it is killed: nothing of it may be needed for the job to run.
setInterval(() => undefined, 1_000)
