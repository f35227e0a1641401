/** Submit to result on an idle board, one at a time: prints p50 and p99 in milliseconds as JSON. `latency.ts <transport> [jobs]` */
import { actor, serve } from "callboard"

const [transport = "memory:", jobs = "1000"] = process.argv.slice(2)
const noop = actor("noop", { methods: { run: async () => null } })
const service = await serve({ transport, actors: [noop], concurrency: 4, logLevel: "warn", signals: false })
await service.ready()

const times: Array<number> = []
for (let at = 0; at < Number(jobs) + 50; at++) {
  const began = performance.now()
  const job = await service.client.submit("noop")
  await job.result()
  if (at >= 50) times.push(performance.now() - began)
}
times.sort((a, b) => a - b)
const quantile = (q: number) => times[Math.min(times.length - 1, Math.floor(times.length * q))] ?? Number.NaN
await service.stop()
console.log(JSON.stringify({ p50: quantile(0.5), p99: quantile(0.99) }))
process.exit(0)
