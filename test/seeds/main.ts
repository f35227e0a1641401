/**
 * Runs seeds: `npm run seeds -- --seeds 10000 --from 1`. Each is a client, workers and their maintenance in virtual time,
 * under faults. A seed that breaks a promise is printed with its trace, and run again: its trace must be the same.
 * `--plant NAME` plants a bug (several may be named, or `all`), and stops at the first seed that finds it. The last line is
 * JSON, for the tests.
 */
import { createHash } from "node:crypto"
import { availableParallelism } from "node:os"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { spawnScript } from "../support/servers/process.ts"
import { isPlant, near, type PlantName, plantNames } from "./plants.ts"
import { runSeed } from "./run.ts"

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "10000" },
    /** The first seed. Default: 1, or one that finds the planted bug soon. */
    from: { type: "string" },
    plant: { type: "string", multiple: true, default: [] },
    /** Processes that share the seeds; planted bugs are looked for by one. */
    processes: { type: "string", default: `${availableParallelism()}` },
    /** Prints the trace of every seed. */
    trace: { type: "boolean", default: false },
  },
})

const seeds = Number(values.seeds)
const first = Number(values.from ?? 1)

const wanted = values.plant.includes("all") ? plantNames : values.plant
const plants = wanted.filter(isPlant)
if (plants.length < wanted.length) {
  console.error(`no such bug: ${wanted.find((name) => !isPlant(name))}. There are: ${plantNames.join(", ")}`)
  process.exit(2)
}

/** The traces of so many seeds have one hash, so that two runtimes are compared by it. */
const HASHED_TOGETHER = 25

interface Found {
  readonly seeds: number
  readonly failed: ReadonlyArray<number>
  /** Failed seeds whose second run had another trace. */
  readonly unsteady: ReadonlyArray<number>
  readonly hashes: ReadonlyArray<string>
}

const runSeeds = async (plant?: PlantName): Promise<Found> => {
  const from = plant === undefined || values.from !== undefined ? first : near[plant]
  const began = performance.now()
  const failed: Array<number> = []
  const unsteady: Array<number> = []
  const hashes: Array<string> = []
  let hash = createHash("sha256")
  let lasted = 0
  let seed = from
  for (; seed < from + seeds && (plant === undefined || failed.length === 0); seed++) {
    const result = await runSeed(seed, plant)
    const trace = result.trace.join("\n")
    lasted += result.lasted
    hash.update(trace)
    if ((seed - from + 1) % HASHED_TOGETHER === 0) {
      hashes.push(hash.digest("hex").slice(0, 16))
      hash = createHash("sha256")
    }
    if (values.trace || result.problems.length > 0) console.log(trace)
    if (result.problems.length === 0) continue
    failed.push(seed)
    for (const problem of result.problems) console.log(`  ${problem}`)
    const again = plant === undefined ? "" : ` --plant "${plant}"`
    console.log(`seed ${seed} breaks a promise; again: npm run seeds -- --from ${seed} --seeds 1${again}`)
    if ((await runSeed(seed, plant)).trace.join("\n") === trace) continue
    unsteady.push(seed)
    console.log("  and its second run had another trace: something is not part of the simulation")
  }
  const seconds = (performance.now() - began) / 1_000
  const what = plant === undefined ? "" : `${plant}: `
  const virtual = `${Math.round(lasted / 60_000)} min of virtual time`
  console.log(`${what}${seed - from} seeds, ${failed.length} failed, ${virtual} in ${seconds.toFixed(1)} s`)
  return { seeds: seed - from, failed, unsteady, hashes }
}

/** Shares the seeds between processes, and puts together what they say. */
const shareSeeds = async (processes: number): Promise<Found> => {
  const began = performance.now()
  const until = first + seeds
  const part = Math.ceil(seeds / processes / HASHED_TOGETHER) * HASHED_TOGETHER
  const starts = Array.from({ length: processes }, (_, at) => first + at * part).filter((start) => start < until)
  const parts = await Promise.all(
    starts.map(async (start): Promise<Found> => {
      const own = Math.min(part, until - start)
      const more = values.trace ? ["--trace"] : []
      await using run = spawnScript(main, ["--from", `${start}`, "--seeds", `${own}`, "--processes", "1", ...more])
      await run.closed
      const lines = run.output.trim().split("\n")
      console.log(lines.slice(0, -1).join("\n"))
      return JSON.parse(lines.at(-1) ?? "")
    }),
  )
  const seconds = ((performance.now() - began) / 1_000).toFixed(1)
  console.log(`${seeds} seeds by ${parts.length} processes in ${seconds} s`)
  return {
    seeds,
    failed: parts.flatMap(({ failed }) => failed),
    unsteady: parts.flatMap(({ unsteady }) => unsteady),
    hashes: parts.flatMap(({ hashes }) => hashes),
  }
}

const main = fileURLToPath(import.meta.url)
const processes = Number(values.processes)

if (plants.length === 0) {
  // A process that is started for fewer costs more time than it saves.
  const found = processes > 1 && seeds >= 200 ? await shareSeeds(processes) : await runSeeds()
  console.log(JSON.stringify(found))
  process.exit(found.failed.length === 0 ? 0 : 1)
}

const found: Record<string, Found> = {}
for (const plant of plants) found[plant] = await runSeeds(plant)
console.log(JSON.stringify(found))
process.exit(Object.values(found).every(({ failed, unsteady }) => failed.length > 0 && unsteady.length === 0) ? 0 : 1)
