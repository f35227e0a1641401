/** A chord of members that do nothing: `chord.ts <transport> <members>`. One chord warms up. */
import { actor, serve } from "callboard"
import { begin, report, rssMiB } from "./program.js"

const [transport = "memory:", text = "10000"] = process.argv.slice(2)
const members = Number(text)

const add = actor("add", {
  methods: {
    one: ({ n }: { readonly n: number }) => n,
    all: (numbers: ReadonlyArray<number>) => numbers.reduce((sum, n) => sum + n, 0),
  },
})
const service = await serve({ transport, actors: [add], concurrency: 200, logLevel: "warn", signals: false })
await service.ready()

/** Seconds until it is submitted, and until it has ended. */
const run = async () => {
  const began = performance.now()
  const inputs = Array.from({ length: members }, (_, n) => ({ n }))
  const body = await service.client.map("add.one", inputs).then("add.all")
  const submitSeconds = (performance.now() - began) / 1_000
  const sum = await body.result({ timeout: 300 })
  if (sum !== (members * (members - 1)) / 2) throw new Error(`a member is missing: ${sum}`)
  return { submitSeconds, seconds: (performance.now() - began) / 1_000 }
}
await run()
await begin()
const times = await run()
report({ jobs: members, ...times, rssMiB: rssMiB() })
