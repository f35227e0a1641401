/** Values as lines of text, folded where they are deep. Pure. */

/** What stands in the place of what is hidden. */
export const HIDDEN = "***"

/** How deep a value is shown before it is unfolded. */
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

/** Whether something of a value is deeper than what is shown at first. */
export const isDeep = (value: unknown, depth = DEPTH): boolean =>
  typeof value === "object" &&
  value !== null &&
  (depth === 0 ? Object.keys(value).length > 0 : Object.values(value).some((each) => isDeep(each, depth - 1)))

/** A piece of a line, and what it is: a name, a text, a number or word, something hidden, or folded. */
export interface Piece {
  readonly text: string
  readonly kind: "" | "k" | "s" | "d" | "red" | "ph"
}

/** What has nothing inside, as one piece. */
const leafOf = (value: unknown): readonly [text: string, kind: Piece["kind"]] | undefined => {
  if (value instanceof Folded) return [value.text, "ph"]
  if (value === HIDDEN) return ["redacted", "red"]
  if (typeof value === "string") return [JSON.stringify(value), "s"]
  if (typeof value !== "object" || value === null) return [String(value), "d"]
  if (Object.keys(value).length > 0) return undefined
  return [Array.isArray(value) ? "[]" : "{}", ""]
}

/** A value as JSON, piece by piece, a list for each line. */
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
