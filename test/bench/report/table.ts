/** The table of a workload, as text: Markdown that is aligned for a terminal as well. */
import { type Figures, ratios, type Spread, spread } from "./figures.ts"
import type { RowResult, RunResult, TableResult } from "./result.ts"

export const show = (value: number): string => {
  if (value >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString("en")
  if (value > 0 && value < 0.1) return value.toPrecision(2)
  return value.toFixed(value >= 10 ? 1 : 2)
}

/** The same as text: the median, and least and most where there are several rounds. */
const showSpread = (value: Spread | undefined): string => {
  if (value === undefined) return "–"
  if (value.min === value.max) return show(value.median)
  return `${show(value.median)} (${show(value.min)}–${show(value.max)})`
}

export const figureOf = (row: RowResult, key: string): ReadonlyArray<number | undefined> =>
  row.rounds.map((figures: Figures | undefined) => figures?.[key])

/** The ratio of a row's main figure to the best of the rows that it names. */
const ratioOf = (table: TableResult, row: RowResult, title: string): Spread | undefined => {
  const named = row.ratios?.[title] ?? []
  const others = table.rows.filter(({ name }) => named.includes(name)).map((other) => figureOf(other, table.main))
  return spread(ratios(figureOf(row, table.main), others, table.better))
}

const cells = (table: TableResult): ReadonlyArray<ReadonlyArray<string>> => {
  const titles = [...new Set(table.rows.flatMap((row) => Object.keys(row.ratios ?? {})))]
  const columns = table.columns.filter(({ key }) => table.rows.some((row) => spread(figureOf(row, key)) !== undefined))
  const head = ["", ...columns.map(({ title }) => title), ...titles, "durability"]
  const body = table.rows.map((row) => {
    const figures = columns.map(({ key }) => showSpread(spread(figureOf(row, key))))
    const parts = titles.map((title) => showSpread(ratioOf(table, row, title)))
    return [row.name, ...figures, ...parts, row.durability]
  })
  return [head, ...body]
}

const aligned = (rows: ReadonlyArray<ReadonlyArray<string>>): ReadonlyArray<string> => {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(3, ...rows.map((row) => row[column]?.length ?? 0)))
  const lines = rows.map((row) => `| ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`)
  const rule = `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`
  return [lines[0] ?? "", rule, ...lines.slice(1)]
}

/** One workload: its title, the table, and why a row is not or not wholly measured. */
export const tableText = (table: TableResult): string => {
  const [before, after] = table.load
  const problems = table.rows.flatMap(({ name, problem }) => (problem === undefined ? [] : [`- ${name}: ${problem}`]))
  return [
    `## ${table.title}`,
    "",
    ...(table.note === undefined ? [] : [table.note, ""]),
    ...aligned(cells(table)),
    "",
    ...problems,
    `Load average ${before.toFixed(1)} before, ${after.toFixed(1)} after.`,
    "",
  ].join("\n")
}

export const headText = ({ began, form, rounds, machine, versions }: Omit<RunResult, "tables">): string =>
  [
    `# Bench, ${form}, ${began}`,
    "",
    `${rounds} rounds, rows in turn; medians with least and most. Ratios are taken round by round. ${machine}.`,
    Object.entries(versions)
      .map(([name, version]) => `${name} ${version}`)
      .join(", "),
    "",
  ].join("\n")
