/** How well a rate is kept while more jobs wait: starts over a time. `rate.ts <transport> <starts a second> <seconds>` */
import { actor, serve } from "callboard"
import { begin, inBatches, nap, report } from "./program.js"

const [transport = "memory:", perSecondText = "10", secondsText = "60"] = process.argv.slice(2)
const perSecond = Number(perSecondText)
const seconds = Number(secondsText)

const at: Array<number> = []
const began = Promise.withResolvers<void>()
const tick = actor("tick", {
  methods: {
    run: {
      limit: { rate: `${perSecond}/s` },
      run: async () => {
        at.push(performance.now())
        began.resolve()
      },
    },
  },
})
const service = await serve({ transport, actors: [tick], concurrency: 50, logLevel: "warn", signals: false })
await service.ready()
await begin()
await inBatches(Math.ceil(perSecond * seconds * 1.2) + 10, async (_, size) => {
  for (const answer of await service.client.submitMany(Array.from({ length: size }, () => ({ task: "tick.run" })))) {
    if (answer instanceof Error) throw answer
  }
})
await began.promise
await nap(seconds * 1_000 + 500)
// Half an interval short: a start that is due right at the end belongs to the time after it.
const end = (at[0] ?? 0) + seconds * 1_000 - 500 / perSecond
report({ starts: at.filter((time) => time < end).length })
