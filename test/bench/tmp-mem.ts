import { actor, serve } from "callboard"
const a = actor("noop", { methods: { run: () => null, later: async () => null } })
let done = 0
const s = await serve({ transport: process.argv[2] ?? "memory:", actors: [a], concurrency: 200, logLevel: "warn", onSettled: () => { done++ } })
await s.ready()
const N = Number(process.argv[3] ?? 50000)
for (let round = 0; round < 4; round++) {
  done = 0
  const subs = Array.from({length: N}, () => ({ task: "noop", resultTtl: 60, input: {a: "x".repeat(240)}}))
  const t = performance.now()
  for (let i = 0; i < N; i += 1000) await s.client.submitMany(subs.slice(i, i+1000))
  const t1 = performance.now()
  while (done < N) await new Promise(r => setTimeout(r, 2))
  const t2 = performance.now()
  console.log("submit/s", (N/(t1-t)*1000)|0, "end-to-end/s", (N / (t2 - t) * 1000)|0, process.memoryUsage().rss >> 20)
}
await s.stop()
