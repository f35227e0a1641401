/** The long form: `bun run chaos [sqlite] [nats] [--jobs 20000] [--kills 50] [--restarts 10] [--cuts 10]`. Exits 1 when the checker finds a problem. */
import { parseArgs } from "node:util"
import { sharedBoards } from "../e2e/boards.ts"
import { check, describe } from "./checker.ts"
import { runChaos } from "./run.ts"

const { values, positionals } = parseArgs({
  args: process.argv.slice(2),
  allowPositionals: true,
  options: {
    jobs: { type: "string", default: "20000" },
    kills: { type: "string", default: "50" },
    restarts: { type: "string", default: "10" },
    cuts: { type: "string", default: "10" },
  },
})

let ok = true
for (const kind of sharedBoards) {
  if (positionals.length > 0 && !positionals.includes(kind.name)) continue
  await using board = await kind.open()
  const began = Date.now()
  const history = await runChaos({
    url: board.url(2),
    folder: board.folder,
    leaseMs: 2_000,
    jobs: Number(values.jobs),
    kills: Number(values.kills),
    ...(board.restartBroker === undefined
      ? {}
      : { restartBroker: board.restartBroker, brokerRestarts: Number(values.restarts), cuts: Number(values.cuts) }),
    concurrency: 16,
    restMs: 300_000,
  })
  const report = check(history)
  ok &&= report.ok
  console.log(`${kind.name}, ${Math.round((Date.now() - began) / 1000)} s: ${describe(report)}`)
}
process.exit(ok ? 0 : 1)
