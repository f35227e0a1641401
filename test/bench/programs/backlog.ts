/**
 * Memory of a worker that works on a backlog: fills the board from one process, works in another, prints the worker's
 * memory after the same number of jobs as JSON. `backlog.ts fill|work <transport> <jobs>`
 */
import { actor, connect, serve } from "callboard"

const [mode = "", transport = "", jobs = "1000"] = process.argv.slice(2)
/** Jobs after which the memory is read: the same whatever the backlog. */
const WORKED = 1_000

if (mode === "fill") {
  await using client = await connect(transport)
  let left = Number(jobs)
  while (left > 0) {
    const size = Math.min(1_000, left)
    left -= size
    await client.submitMany(Array.from({ length: size }, () => ({ task: "noop", input: { payload: "x".repeat(232) } })))
  }
} else {
  const noop = actor("noop", { methods: { run: async () => null } })
  let ended = 0
  const worked = Promise.withResolvers<void>()
  const service = await serve({
    transport,
    actors: [noop],
    concurrency: 200,
    logLevel: "warn",
    signals: false,
    onSettled: () => {
      if (++ended === WORKED) worked.resolve()
    },
  })
  await worked.promise
  console.log(JSON.stringify({ rssMiB: process.memoryUsage().rss / 2 ** 20 }))
  await service.stop({ now: true })
  process.exit(0)
}
