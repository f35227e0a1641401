/** Output of commands: aligned columns for people, JSON for programs. */
import { randomUUID } from "node:crypto"
import type { ColourChoice } from "../log/choices.ts"
import { takesColour } from "../log/log.ts"
import { inOneLine, visible } from "../log/log-value.ts"

import { beginning } from "../protocol/text.ts"

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, blue: 34, cyan: 36 } as const
export type Colour = keyof typeof CODES

export type Paint = (text: string, colour: Colour | undefined) => string

/**
 * Names, descriptions and errors may hold control characters, which the terminal must not interpret. Commands
 * therefore mark their colours with a random key, and all other control characters of the output are escaped.
 */
const KEY = `${randomUUID()};`
const PAINTED = new RegExp(`\\u001b\\[${KEY}(\\d+)m`)

/** Colours text, or returns it unchanged where the stream takes no colours. */
export const painter =
  (enabled: boolean): Paint =>
  (text, colour) =>
    enabled && colour !== undefined && text !== "" ? `\u001b[${KEY}${CODES[colour]}m${text}\u001b[${KEY}0m` : text

/** Applies a function to the text between colour marks. */
const between = (text: string, change: (part: string) => string, colour: (code: string) => string): string =>
  text
    .split(PAINTED)
    .map((part, at) => (at % 2 === 0 ? change(part) : colour(part)))
    .join("")

/** The output of a command as it is sent to the terminal: colours as escape sequences, control characters escaped. */
export const shown = (text: string): string => between(text, visible, (code) => `\u001b[${code}m`)

/** A cell in one line, with its colours. */
const cellText = (text: string): string => between(text, inOneLine, (code) => `\u001b[${KEY}${code}m`)

const widthOf = (text: string): number =>
  between(
    text,
    (part) => part,
    () => "",
  ).length

const GAP = "  "

/** A cell, cut to a width, with its colours kept. */
const cutCell = (cell: string, max: number): string => {
  if (widthOf(cell) <= max) return cell
  let left = Math.max(0, max - 1)
  const take = (part: string): string => {
    const taken = beginning(part, left)
    left -= taken.length
    return taken
  }
  return `${between(cell, take, (code) => `\u001b[${KEY}${code}m`)}…`
}

/** Narrower columns are cut last: they hold states, counts and times, which are useless when cut. */
const NARROW = 12
const LEAST = 4

/** Narrows the widest columns until all fit, and none below `min`. */
const narrow = (widths: Array<number>, width: number, min: number): void => {
  let over = widths.reduce((sum, each) => sum + each, 0) + GAP.length * (widths.length - 1) - width
  while (over > 0) {
    const widest = Math.max(...widths)
    if (widest <= min) return
    // Narrows to the next widest column in one step, instead of character by character.
    const share = Math.ceil(over / widths.filter((each) => each === widest).length)
    const next = Math.max(min, widest - share, ...widths.filter((each) => each < widest))
    widths[widths.lastIndexOf(widest)] = next
    over -= widest - next
  }
}

/** Wraps a text into lines of limited length, between words where possible. */
export const wrapped = (text: string, width: number): ReadonlyArray<string> => {
  const lines: Array<string> = []
  let rest = inOneLine(text)
  while (rest.length > width) {
    const blank = rest.lastIndexOf(" ", width)
    const end = blank > width / 2 ? blank : width
    lines.push(rest.slice(0, end))
    rest = rest.slice(end).trimStart()
  }
  return [...lines, rest]
}

/**
 * Aligns rows in columns as wide as their widest cell. The last column is not padded. With a `width`, cells are cut so
 * that no line is longer.
 */
export const columns = (given: ReadonlyArray<ReadonlyArray<string>>, width = Number.POSITIVE_INFINITY): string => {
  const whole = given.map((row) => row.map(cellText))
  const widths: Array<number> = []
  for (const row of whole) for (const [at, cell] of row.entries()) widths[at] = Math.max(widths[at] ?? 0, widthOf(cell))
  narrow(widths, width, NARROW)
  narrow(widths, width, LEAST)
  const rows = whole.map((row) => row.map((cell, at) => cutCell(cell, widths[at] ?? 0)))
  return rows
    .map((row) =>
      row
        .map((cell, at) => (at === row.length - 1 ? cell : cell + " ".repeat((widths[at] ?? 0) - widthOf(cell))))
        .join(GAP)
        .trimEnd(),
    )
    .join("\n")
}

/** Output of one command. */
export interface Output {
  /** Whether `--json` was given. */
  readonly json: boolean
  readonly paint: Paint
  /** Whether `--wide` was given: nothing is left out or cut. */
  readonly wide: boolean
  /** Longest line in characters: the width of the terminal, 80 without a terminal, unlimited with `wide`. */
  readonly width: number
  /** Prints a line on standard output. */
  line(text?: string): void
  /** Prints a line on standard error, for remarks that are not the result of the command. */
  note(text: string): void
  /** Prints one JSON document: indented on a terminal, else in one line. */
  document(value: unknown): void
  /** Prints one line of a JSON stream. */
  record(value: unknown): void
  /** Prints a table with a heading, at most {@link Output.width} wide; without rows it prints `empty`. */
  table(heading: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>, empty: string): void
}

const DEFAULT_WIDTH = 80

export interface OutputOptions {
  readonly json?: boolean | undefined
  readonly wide?: boolean | undefined
  readonly colour?: ColourChoice | undefined
}

export const outputFor = ({ json = false, wide = false, colour = "auto" }: OutputOptions): Output => {
  // A terminal of unknown size reports 0.
  const width = wide ? Number.POSITIVE_INFINITY : process.stdout.columns || DEFAULT_WIDTH
  const paint = painter(takesColour(colour, process.stdout))
  const line = (text = "") => void process.stdout.write(`${shown(text)}\n`)
  const note = (text: string) => void process.stderr.write(`${shown(text)}\n`)
  return {
    json,
    paint,
    wide,
    width,
    line,
    note,
    document: (value) => line(process.stdout.isTTY ? JSON.stringify(value, null, 2) : JSON.stringify(value)),
    record: (value) => line(JSON.stringify(value)),
    table: (heading, rows, empty) => {
      if (rows.length === 0) note(empty)
      else line(columns([heading.map((title) => paint(title, "dim")), ...rows], width))
    },
  }
}
