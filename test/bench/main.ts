/**
 * The numbers of this machine: our runtime, the raw loops over the same brokers, and what people would use instead, in
 * turn, each in processes of its own.
 *
 * `npm run bench` takes less than five minutes; `npm run bench -- --full` has all workloads and peers, and takes an
 * hour and a half; `npm run bench -- --soak` loads each transport for ten minutes. `--only end-to-end,limit` chooses
 * workloads, `--rows "nats|BullMQ"` rows by a pattern, `--jobs` and `--rounds` say how much. Tables are printed;
 * test/bench/results/ keeps them, with JSON and a chart.
 */
import { parseArgs } from "node:util"
import { machine, versions } from "./harness/machine.ts"
import { runWorkload, type Workload } from "./harness/workload.ts"
import { keepResults } from "./report/keep.ts"
import type { RunResult, TableResult } from "./report/result.ts"
import { headText, tableText } from "./report/table.ts"
import { workloads } from "./workloads/all.ts"
import { soak } from "./workloads/soak.ts"

const { values } = parseArgs({
  options: {
    full: { type: "boolean", default: false },
    soak: { type: "boolean", default: false },
    jobs: { type: "string", default: "50000" },
    rounds: { type: "string", default: "3" },
    /** Of each rate, 60 unless said; of the soak, 600. */
    seconds: { type: "string" },
    only: { type: "string" },
    rows: { type: "string" },
  },
})
const rounds = Number(values.rounds)
const jobs = Number(values.jobs)
if (!(rounds >= 1 && jobs >= 1_000)) throw new Error("--rounds is 1 or more, --jobs 1,000 or more")

const all = values.soak
  ? [soak(Number(values.seconds ?? "600"))]
  : workloads({
      isFull: values.full,
      jobs,
      trips: 1_000,
      limited: 2_000,
      rateSeconds: Number(values.seconds ?? "60"),
    })
const wanted = values.only?.split(",")
const unknown = wanted?.filter((name) => !all.some((workload) => workload.name === name)) ?? []
if (unknown.length > 0) {
  const hint = values.full ? "" : "; --full has more"
  throw new Error(`no workload ${unknown.join(", ")}; there are ${all.map(({ name }) => name).join(", ")}${hint}`)
}
const rows = new RegExp(values.rows ?? "")
const chosen = all
  .filter(({ name }) => wanted?.includes(name) ?? true)
  .map((workload): Workload => ({ ...workload, contenders: workload.contenders.filter(({ name }) => rows.test(name)) }))
  .filter(({ contenders }) => contenders.length > 0)
if (chosen.length === 0) throw new Error(`no row of these workloads matches ${values.rows}`)

const began = performance.now()
const about = {
  began: new Date().toISOString(),
  form: values.soak ? "soak" : values.full ? "full form" : "short form",
  rounds,
  machine: machine(),
  versions: await versions({ isFull: values.full }),
}
console.log(headText(about))
const tables: Array<TableResult> = []
for (const workload of chosen) {
  const table = await runWorkload(workload, rounds, (line) => process.stderr.write(`${line}\n`))
  tables.push(table)
  console.log(`\n${tableText(table)}`)
}
const result: RunResult = { ...about, tables }
console.log(`${keepResults(result)}; ${Math.round((performance.now() - began) / 1_000)} s`)
const failed = tables.some(({ rows }) => rows.some(({ problem }) => problem?.startsWith("failed")))
process.exit(failed ? 1 : 0)
