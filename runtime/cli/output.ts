/** What commands print: aligned columns for people, JSON for programs. */
import { randomUUID } from "node:crypto"
import { type ColourChoice, takesColour } from "../log/colour.ts"
import { inOneLine, visible } from "../log/log-value.ts"

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, blue: 34, cyan: 36 } as const
export type Colour = keyof typeof CODES

export type Paint = (text: string, colour: Colour | undefined) => string

/**
 * Names, descriptions and errors were written by others, and the terminal must show them and not obey them. So a command
 * paints with a key that nobody else knows, and what it prints is escaped, but for colours with that key.
 */
const KEY = `${randomUUID()};`
const PAINTED = new RegExp(`\\u001b\\[${KEY}(\\d+)m`)

/** Colours text for a stream, or leaves it as it is. */
export const painter =
  (enabled: boolean): Paint =>
  (text, colour) =>
    enabled && colour !== undefined && text !== "" ? `\u001b[${KEY}${CODES[colour]}m${text}\u001b[${KEY}0m` : text

/** Changes a text between its colours. */
const between = (text: string, change: (part: string) => string, colour: (code: string) => string): string =>
  text
    .split(PAINTED)
    .map((part, at) => (at % 2 === 0 ? change(part) : colour(part)))
    .join("")

/** What a command wants to print, as the terminal gets it. */
export const shown = (text: string): string => between(text, visible, (code) => `\u001b[${code}m`)

/** A cell lies in one line. */
const cellText = (text: string): string => between(text, inOneLine, (code) => `\u001b[${KEY}${code}m`)

const widthOf = (text: string): number =>
  between(
    text,
    (part) => part,
    () => "",
  ).length

/** Rows in columns that are as wide as their widest cell. The last column is not filled up. */
export const columns = (given: ReadonlyArray<ReadonlyArray<string>>): string => {
  const rows = given.map((row) => row.map(cellText))
  const widths: Array<number> = []
  for (const row of rows) for (const [at, cell] of row.entries()) widths[at] = Math.max(widths[at] ?? 0, widthOf(cell))
  return rows
    .map((row) =>
      row
        .map((cell, at) => (at === row.length - 1 ? cell : cell + " ".repeat((widths[at] ?? 0) - widthOf(cell))))
        .join("  ")
        .trimEnd(),
    )
    .join("\n")
}

/** Output of one command. */
export interface Output {
  /** Whether the command was asked for JSON. */
  readonly json: boolean
  readonly paint: Paint
  /** A line on standard output. */
  line(text?: string): void
  /** A line on standard error: what is not the answer. */
  note(text: string): void
  /** One JSON document: indented for people on a terminal, else one line. */
  document(value: unknown): void
  /** One line of a stream of JSON. */
  record(value: unknown): void
  /** A table with a heading; `empty` instead when there are no rows. */
  table(heading: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>, empty: string): void
}

export const outputFor = (json: boolean, colour: ColourChoice = "auto"): Output => {
  const paint = painter(takesColour(colour, process.stdout))
  const line = (text = "") => void process.stdout.write(`${shown(text)}\n`)
  const note = (text: string) => void process.stderr.write(`${shown(text)}\n`)
  return {
    json,
    paint,
    line,
    note,
    document: (value) => line(process.stdout.isTTY ? JSON.stringify(value, null, 2) : JSON.stringify(value)),
    record: (value) => line(JSON.stringify(value)),
    table: (heading, rows, empty) => {
      if (rows.length === 0) note(empty)
      else line(columns([heading.map((title) => paint(title, "dim")), ...rows]))
    },
  }
}
