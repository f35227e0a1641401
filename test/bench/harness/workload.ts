/** What is measured: a workload has contenders, each of which is one row of its table. */
import { loadavg } from "node:os"
import { type Better, type Figures, perJob } from "../report/figures.ts"
import type { Column, RowResult, TableResult } from "../report/result.ts"

/** Something that this machine does not have and that cannot be fetched: the row says so, and the run goes on. */
export class Unavailable extends Error {
  override readonly name = "Unavailable"
}

export interface Contender extends Pick<RowResult, "name" | "durability" | "ratios"> {
  /** Measures once, on a new and empty board. */
  run(): Promise<Figures>
}

export interface Workload {
  readonly name: string
  readonly title: string
  readonly note?: string
  /** The figure that ratios and the chart are about. */
  readonly main: string
  readonly better: Better
  readonly columns: ReadonlyArray<Column>
  readonly contenders: ReadonlyArray<Contender>
  /** Defaults to those of the whole run. */
  readonly rounds?: number
}

/** Processor time per job, and what each column of it is called. */
export const processorColumns: ReadonlyArray<Column> = [
  { key: "client", title: "client CPU µs" },
  { key: "broker", title: "broker CPU µs" },
  { key: "both", title: "both µs" },
]

const problemOf = (error: unknown): string =>
  error instanceof Unavailable
    ? `not measured: ${error.message}`
    : `failed: ${String(error).trim().split("\n").slice(0, 6).join(" / ")}`

/** Runs all contenders in turn, round by round, so that what else the machine does meets all of them. */
export const runWorkload = async (
  workload: Workload,
  runRounds: number,
  say: (line: string) => void,
): Promise<TableResult> => {
  const { contenders, rounds = runRounds, ...rest } = workload
  const before = loadavg()[0] ?? Number.NaN
  const measured = contenders.map(() => Array.from<Figures | undefined>({ length: rounds }))
  const problems = new Map<Contender, string>()
  for (let round = 0; round < rounds; round++) {
    for (const [at, contender] of contenders.entries()) {
      if (problems.has(contender)) continue
      const began = performance.now()
      try {
        const figures = perJob(await contender.run())
        const row = measured[at]
        if (row !== undefined) row[round] = figures
      } catch (error) {
        problems.set(contender, problemOf(error))
      }
      const took = ((performance.now() - began) / 1_000).toFixed(1)
      say(
        `${workload.name}, round ${round + 1} of ${rounds}: ${contender.name}, ${problems.get(contender) ?? `${took} s`}`,
      )
    }
  }
  return {
    workload: rest.name,
    title: rest.title,
    ...(rest.note === undefined ? {} : { note: rest.note }),
    main: rest.main,
    better: rest.better,
    columns: rest.columns,
    load: [before, loadavg()[0] ?? Number.NaN],
    rows: contenders.map((contender, at) => {
      const { name, durability, ratios } = contender
      const problem = problems.get(contender)
      return {
        name,
        durability,
        ...(ratios === undefined ? {} : { ratios }),
        rounds: measured[at] ?? [],
        ...(problem === undefined ? {} : { problem }),
      }
    }),
  }
}
