/**
 * A worker alone. It begins to work when it is told to, and prints how many jobs have settled, when the first and when
 * the last one did, as they go on. `worker.ts <transport> <concurrency> [handler ms] [prefetch]`
 */
import { actor, serve } from "callboard"
import { begin, nap, progress } from "./program.js"

const [transport = "", concurrency = "200", napText = "0", prefetch = "4"] = process.argv.slice(2)
const napMs = Number(napText)
const noop = actor("noop", {
  methods: {
    run: async (input: { n: number }) => {
      if (napMs > 0) await nap(napMs)
      return { n: input.n }
    },
  },
})
await begin()
const settled = progress()
const service = await serve({
  transport,
  actors: [noop],
  concurrency: Number(concurrency),
  prefetch: Number(prefetch),
  logLevel: "warn",
  signals: false,
  onSettled: settled.add,
})
await service.ready()
settled.show()
