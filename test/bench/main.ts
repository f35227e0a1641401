/**
 * The numbers of this machine, as ratios in one run: our runtime beside the raw ceiling of the same broker and client
 * library, in turn, each in a process of its own.
 *
 * `bun run bench [sqlite] [nats] [--jobs 50000] [--rounds 3] [--only throughput,latency,memory,limits]`
 */
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { startNats } from "../support/servers/nats.ts"
import { spawnScript, temporaryFolder } from "../support/servers/process.ts"

const { values, positionals } = parseArgs({
  args: process.argv.slice(2),
  allowPositionals: true,
  options: {
    jobs: { type: "string", default: "50000" },
    rounds: { type: "string", default: "3" },
    only: { type: "string", default: "throughput,latency,memory,limits" },
  },
})
/** The rates per second that are measured, each for a minute. */
const RATES = [1, 10, 100, 1_000]
const parts = new Set(values.only.split(","))
const chosen = positionals.length === 0 ? ["sqlite", "nats"] : positionals

/** Runs a script of this folder in its own process and returns the figure that it prints last. */
const measure = async (script: string, args: ReadonlyArray<string>): Promise<Readonly<Record<string, number>>> => {
  await using process = spawnScript(fileURLToPath(new URL(script, import.meta.url)), [...args])
  const { code } = await process.exited
  const line = process.output.trim().split("\n").at(-1) ?? ""
  if (code !== 0) throw new Error(`${script} ${args.join(" ")} ended with ${code}:\n${process.output}`)
  if (!line.startsWith("{")) return {}
  return JSON.parse(line)
}

const spread = (values: ReadonlyArray<number>): string => {
  const sorted = [...values].sort((a, b) => a - b)
  const median = sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
  const show = (value: number | undefined) =>
    value === undefined ? "–" : value >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(2)
  return `${show(median)} (${show(sorted[0])} – ${show(sorted.at(-1))})`
}

interface Target extends AsyncDisposable {
  readonly url: string
}

const targets: Readonly<Record<string, { open(): Promise<Target>; raw(target: Target): Promise<number> }>> = {
  sqlite: {
    open: async () => {
      const folder = temporaryFolder()
      return { url: `sqlite:${folder.path}/board.db`, [Symbol.asyncDispose]: async () => folder.remove() }
    },
    raw: async () => (await measure("raw-sqlite.ts", [values.jobs])).jobsPerSecond ?? Number.NaN,
  },
  nats: {
    open: () => startNats(),
    raw: async (target) => (await measure("raw-nats.ts", [target.url, values.jobs, "200"])).jobsPerSecond ?? Number.NaN,
  },
}

for (const name of chosen) {
  const target = targets[name]
  if (target === undefined) throw new Error(`no bench for ${name}; there are ${Object.keys(targets).join(", ")}`)
  console.log(`\n${name}`)
  if (parts.has("throughput")) {
    const raw: Array<number> = []
    const ours: Array<number> = []
    const ratios: Array<number> = []
    for (let round = 0; round < Number(values.rounds); round++) {
      await using rawBoard = await target.open()
      const ceiling = await target.raw(rawBoard)
      await using board = await target.open()
      const { jobsPerSecond = Number.NaN } = await measure("cycle.ts", [board.url, values.jobs, "200"])
      raw.push(ceiling)
      ours.push(jobsPerSecond)
      ratios.push(jobsPerSecond / ceiling)
    }
    console.log(`  end to end, jobs/s        ${spread(ours)}`)
    console.log(`  raw ceiling, jobs/s       ${spread(raw)}`)
    console.log(`  ratio                     ${spread(ratios)}`)
  }
  if (parts.has("latency")) {
    const p50s: Array<number> = []
    const p99s: Array<number> = []
    for (let round = 0; round < Number(values.rounds); round++) {
      await using board = await target.open()
      const { p50 = Number.NaN, p99 = Number.NaN } = await measure("latency.ts", [board.url])
      p50s.push(p50)
      p99s.push(p99)
    }
    console.log(`  idle latency p50, ms      ${spread(p50s)}`)
    console.log(`  idle latency p99, ms      ${spread(p99s)}`)
  }
  if (parts.has("memory")) {
    const memory: Array<number> = []
    for (const backlog of ["1000", "500000"]) {
      await using board = await target.open()
      await measure("backlog.ts", ["fill", board.url, backlog])
      const { rssMiB = Number.NaN } = await measure("backlog.ts", ["work", board.url, backlog])
      memory.push(rssMiB)
    }
    const [small = Number.NaN, large = Number.NaN] = memory
    console.log(
      `  worker memory, MiB        ${small.toFixed(0)} with a backlog of 1,000; ${large.toFixed(0)} with 500,000; difference ${(large - small).toFixed(0)}`,
    )
  }
  if (parts.has("limits")) {
    const starts = async (how: string): Promise<number> => {
      await using board = await target.open()
      return (await measure("limits.ts", [board.url, "starts", how])).perSecond ?? Number.NaN
    }
    const ratios: Array<number> = []
    for (let round = 0; round < Number(values.rounds); round++)
      ratios.push((await starts("limited")) / (await starts("free")))
    console.log(`  starts by a limit of 10   ${spread(ratios)} of those without it`)
    // At the same time, since they only wait.
    const kept = RATES.map(async (rate) => {
      await using board = await target.open()
      const { perSecond = Number.NaN } = await measure("limits.ts", [board.url, "rate", String(rate), "60"])
      return `${((100 * perSecond) / rate).toFixed(1)} % of ${rate}/s`
    })
    console.log(`  rates over a minute       ${(await Promise.all(kept)).join(", ")}`)
  }
}
