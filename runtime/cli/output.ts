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

const GAP = "  "

/** The beginning of a cell, with its colours, where it is too long. */
const cutCell = (cell: string, most: number): string => {
  if (widthOf(cell) <= most) return cell
  let left = Math.max(0, most - 1)
  const take = (part: string): string => {
    const taken = part.slice(0, left)
    left -= taken.length
    return taken
  }
  return `${between(cell, take, (code) => `\u001b[${KEY}${code}m`)}…`
}

/** Columns that are narrower are cut last: they hold states, counts and times, which say nothing when they are cut. */
const NARROW = 12
const LEAST = 4

/** Takes from the widest column until all fit, and from none below `least`. */
const narrow = (widths: Array<number>, width: number, least: number): void => {
  let over = widths.reduce((sum, each) => sum + each, 0) + GAP.length * (widths.length - 1) - width
  while (over > 0) {
    const widest = Math.max(...widths)
    if (widest <= least) return
    // Down to the next widest at once: a long text costs no step for each character.
    const share = Math.ceil(over / widths.filter((each) => each === widest).length)
    const next = Math.max(least, widest - share, ...widths.filter((each) => each < widest))
    widths[widths.lastIndexOf(widest)] = next
    over -= widest - next
  }
}

/** A text in lines of so many characters at most, ended between words where there are any. */
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
 * Rows in columns that are as wide as their widest cell. The last column is not filled up. With a `width`, cells are cut so
 * that lines have so many characters at most.
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
  /** Whether the command was asked for JSON. */
  readonly json: boolean
  readonly paint: Paint
  /** Whether nothing is to be left out or cut for want of room. */
  readonly wide: boolean
  /** How many characters a line may have: those of the terminal, 80 where there is none, infinitely many with `wide`. */
  readonly width: number
  /** A line on standard output. */
  line(text?: string): void
  /** A line on standard error: what is not the answer. */
  note(text: string): void
  /** One JSON document: indented for people on a terminal, else one line. */
  document(value: unknown): void
  /** One line of a stream of JSON. */
  record(value: unknown): void
  /** A table with a heading, as wide as {@link Output.width} at most; `empty` instead when there are no rows. */
  table(heading: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>, empty: string): void
}

const DEFAULT_WIDTH = 80

export interface OutputOptions {
  readonly json?: boolean | undefined
  readonly wide?: boolean | undefined
  readonly colour?: ColourChoice | undefined
}

export const outputFor = ({ json = false, wide = false, colour = "auto" }: OutputOptions): Output => {
  // A terminal that does not know its size says 0.
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
