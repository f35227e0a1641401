/** Renders JSON values as lines of text, with deep parts folded. Pure. */

/** The text in place of a hidden value. */
export const HIDDEN = "***"

/** How many levels of a value are shown unfolded. */
const DEPTH = 3

class Folded {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

const fold = (value: unknown, depth: number): unknown => {
  if (typeof value !== "object" || value === null) return value
  if (Array.isArray(value)) {
    if (depth === 0 && value.length > 0) return new Folded(`[ ${value.length} items ]`)
    return value.map((each) => fold(each, depth - 1))
  }
  const entries = Object.entries(value)
  if (depth === 0 && entries.length > 0) return new Folded(`{ ${entries.length} fields }`)
  return Object.fromEntries(entries.map(([name, each]) => [name, fold(each, depth - 1)]))
}

/** Whether a value has more levels than are shown unfolded. */
export const isDeep = (value: unknown, depth = DEPTH): boolean =>
  typeof value === "object" &&
  value !== null &&
  (depth === 0 ? Object.keys(value).length > 0 : Object.values(value).some((each) => isDeep(each, depth - 1)))

/** A piece of a line and its kind: a name, a text, a number or word, a hidden value, or a folded one. */
export interface Piece {
  readonly text: string
  readonly kind: "" | "k" | "s" | "d" | "red" | "ph"
}

/** A value without members as one piece. */
const leafOf = (value: unknown): readonly [text: string, kind: Piece["kind"]] | undefined => {
  if (value instanceof Folded) return [value.text, "ph"]
  if (value === HIDDEN) return ["redacted", "red"]
  if (typeof value === "string") return [JSON.stringify(value), "s"]
  if (typeof value !== "object" || value === null) return [String(value), "d"]
  if (Object.keys(value).length > 0) return undefined
  return [Array.isArray(value) ? "[]" : "{}", ""]
}

/** A value as JSON: the pieces of each line. */
export const linesOf = (value: unknown, unfolded: boolean): ReadonlyArray<ReadonlyArray<Piece>> => {
  const lines: Array<Array<Piece>> = [[]]
  const put = (text: string, kind: Piece["kind"] = ""): void => {
    lines.at(-1)?.push({ text, kind })
  }
  const line = (depth: number): void => {
    lines.push([])
    if (depth > 0) put("  ".repeat(depth))
  }
  const write = (each: unknown, depth: number): void => {
    const leaf = leafOf(each)
    if (leaf !== undefined) {
      put(...leaf)
      return
    }
    const isList = Array.isArray(each)
    const entries = Object.entries(Object(each))
    put(isList ? "[" : "{")
    entries.forEach(([name, inner], at) => {
      line(depth + 1)
      if (!isList) {
        put(JSON.stringify(name), "k")
        put(": ")
      }
      write(inner, depth + 1)
      if (at < entries.length - 1) put(",")
    })
    line(depth)
    put(isList ? "]" : "}")
  }
  write(unfolded ? value : fold(value, DEPTH), 0)
  return lines
}

type Lines = ReadonlyArray<ReadonlyArray<Piece>>

/** The first lines, up to a number of characters; the last of them may be cut in the middle, since a text may be very long. */
export const upTo = (lines: Lines, max: number): { readonly lines: Lines; readonly isCut: boolean } => {
  let left = max
  const shown: Array<ReadonlyArray<Piece>> = []
  for (const line of lines) {
    if (left <= 0) return { lines: shown, isCut: true }
    const pieces: Array<Piece> = []
    for (const { text, kind } of line) {
      pieces.push({ text: text.slice(0, Math.max(0, left)), kind })
      left -= text.length
    }
    shown.push(pieces)
    if (left < 0) return { lines: shown, isCut: true }
    left -= 1
  }
  return { lines: shown, isCut: false }
}
