/**
 * The least that a server can do that keeps what it accepts on JetStream: Hono reads JSON, a message per task is
 * published and acknowledged, and the answer has as many fields as ours. `http-bare.ts <url> <port>`
 */
import { Hono } from "hono"
import { connect, RetentionPolicy } from "nats"
import { listen } from "../../../runtime/http/listener.ts"

interface Task {
  readonly task: string
}

const [url = "", port = "0"] = process.argv.slice(2)
const connection = await connect({ servers: url })
const manager = await connection.jetstreamManager()
await manager.streams.add({ name: "BARE", subjects: ["bare.>"], retention: RetentionPolicy.Workqueue })
const jetstream = connection.jetstream()
const encoder = new TextEncoder()

const accept = async (task: Task) => {
  const id = crypto.randomUUID()
  const message = encoder.encode(JSON.stringify({ id, ...task }))
  await jetstream.publish(`bare.${task.task}`, message, { msgID: id })
  return { id, state: "queued", durability: "server", href: `/v1/jobs/${id}` }
}

const app = new Hono()
app.post("/v1/jobs", async (context) => {
  const body: Task | ReadonlyArray<Task> = await context.req.json()
  return "task" in body ? context.json(await accept(body), 202) : context.json(await Promise.all(body.map(accept)), 202)
})
await listen({ host: "127.0.0.1", port: Number(port) }, app.fetch, (error) => {
  throw error
})
console.log("LISTENING")
