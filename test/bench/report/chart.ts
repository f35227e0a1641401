/** One picture of a run: a bar for each row, grouped by workload. */
import { spread } from "./figures.ts"
import type { RunResult, TableResult } from "./result.ts"
import { figureOf, show } from "./table.ts"

const WIDTH = 900
const NAMES = 330
const BARS = 420
const ROW = 20
const HEAD = 34

const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")

const colourOf = (name: string): string =>
  /^callboard/i.test(name) ? "#2f6fde" : /^(raw|bare)/.test(name) ? "#9aa3ad" : "#d9822b"

interface Drawing {
  readonly lines: ReadonlyArray<string>
  readonly height: number
}

const group = (table: TableResult, top: number): Drawing => {
  const unit = table.columns.find(({ key }) => key === table.main)?.title ?? table.main
  const rows = table.rows.flatMap((row) => {
    const value = spread(figureOf(row, table.main))
    return value === undefined ? [] : [{ name: row.name, value }]
  })
  const max = Math.max(...rows.map(({ value }) => value.max))
  const x = (value: number) => NAMES + (BARS * value) / max
  const bars = rows.flatMap(({ name, value }, at) => {
    const y = top + HEAD + at * ROW
    const middle = y + ROW / 2
    return [
      `<text x="${NAMES - 8}" y="${middle + 4}" text-anchor="end">${escaped(name)}</text>`,
      `<rect x="${NAMES}" y="${y + 3}" width="${(x(value.median) - NAMES).toFixed(1)}" height="${ROW - 6}" fill="${colourOf(name)}"/>`,
      `<path d="M${x(value.min).toFixed(1)} ${middle}H${x(value.max).toFixed(1)}" stroke="#222"/>`,
      `<text x="${(x(value.max) + 8).toFixed(1)}" y="${middle + 4}">${show(value.median)}</text>`,
    ]
  })
  const wish = table.better === "more" ? "more is better" : "less is better"
  const title = `<text x="10" y="${top + 22}" font-weight="bold">${escaped(`${table.title}: ${unit}, ${wish}`)}</text>`
  return { lines: [title, ...bars], height: HEAD + rows.length * ROW }
}

/** The medians as bars, with a line from the least to the most. */
export const chart = ({ tables }: RunResult): string => {
  let top = 0
  const lines: Array<string> = []
  for (const table of tables) {
    const drawn = group(table, top)
    lines.push(...drawn.lines)
    top += drawn.height + 14
  }
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${top}" font-family="sans-serif" font-size="12">`,
    `<rect width="100%" height="100%" fill="white"/>`,
    ...lines,
    "</svg>",
    "",
  ].join("\n")
}
