/** Results of runs, kept beside the bench: tables, JSON and a chart. */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { chart } from "./chart.ts"
import type { RunResult } from "./result.ts"
import { headText, tableText } from "./table.ts"

const folder = fileURLToPath(new URL("../results/", import.meta.url))

/** Writes the files of a run and says where they are. */
export const keepResults = (result: RunResult): string => {
  mkdirSync(folder, { recursive: true })
  const name = `${result.began.slice(0, 19).replaceAll(":", "-")}-${result.form.split(" ")[0]}`
  const write = (ending: string, text: string) => writeFileSync(join(folder, `${name}.${ending}`), text)
  write("json", `${JSON.stringify(result, null, 2)}\n`)
  write("svg", chart(result))
  write("md", [headText(result), ...result.tables.map(tableText)].join("\n"))
  return `test/bench/results/${name}.{md,json,svg}`
}
