/**
 * A service that does everything for which there is a log line, and at last blocks: `log-service.ts host|json <transport>
 * [file]`. It runs as a process of its own, so that the test sees all its output.
 */
import { appendFileSync } from "node:fs"
import { serve } from "callboard"
import { TransportError } from "callboard/transport"
import { Hono } from "hono"
import { http } from "../../../../runtime/http/app.ts"
import { noisy } from "./log-actor.ts"

const [how, transport = "", file = ""] = process.argv.slice(2)

const line = (message: string, fields: Readonly<Record<string, unknown>>) =>
  appendFileSync(file, `${JSON.stringify({ message, ...fields })}\n`)
const log = { debug: line, info: line, warn: line, error: line }

const service = await serve({
  transport,
  actors: [noisy],
  http: { port: 0 },
  ...(how === "host" ? { log, logLevel: "debug" } : { logFormat: "json" }),
})
await service.ready()
const { client } = service
for (const task of ["noisy.speak", "noisy.inline", "noisy.crash", "noisy.missing"]) {
  const job = await client.submit(task, { input: { word: "\u001b[31m\nred" } }, { lenient: true })
  if (task !== "noisy.missing") await job.outcome({ timeout: 20 })
}
// An error inside the HTTP interface.
const settings =
  how === "host" ? { log } : { log: (await import("../../../../runtime/log/log.ts")).makeLog({ format: "json" }) }
client.statistics.workers = () => Promise.reject(new TransportError("internal", "broken"))
await new Hono().route("/", http(client, { ...settings, open: true })).request("http://localhost/v1/workers")
await client.submit("noisy.block", { timeLimit: 0.2 })
