/**
 * JSON with what Python adds to it: bare `NaN`, `Infinity` and `-Infinity`, and integers of any size, which become
 * `bigint` where a double cannot hold them. Slower than the runtime's own parser, so used only where that one fails or
 * rounds. Everything else is as strict as RFC 8259; of a key that comes twice the last one counts; `__proto__` is dropped.
 */
import { MAX_DEPTH } from "./codec.ts"
import { tooDeep } from "./codec-failure.ts"

/** Python 3.11: integers of more digits are refused, because reading them takes time that grows with their square. */
const MAX_DIGITS = 4300

const NUMBER = /-?(?:Infinity|(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?)/y

interface Cursor {
  readonly text: string
  at: number
}

const unexpected = (cursor: Cursor): SyntaxError => {
  const found = cursor.text.slice(cursor.at, cursor.at + 1)
  return new SyntaxError(
    found === "" ? "JSON ends too early" : `unexpected ${JSON.stringify(found)} at character ${cursor.at} of JSON`,
  )
}

const skipBlanks = (cursor: Cursor): void => {
  for (;;) {
    const unit = cursor.text.charCodeAt(cursor.at)
    if (unit !== 0x20 && unit !== 0x0a && unit !== 0x0d && unit !== 0x09) return
    cursor.at++
  }
}

const take = (cursor: Cursor, word: string): void => {
  if (!cursor.text.startsWith(word, cursor.at)) throw unexpected(cursor)
  cursor.at += word.length
}

const readText = (cursor: Cursor): string => {
  const { text, at: start } = cursor
  let at = start + 1
  for (;;) {
    const unit = text.charCodeAt(at)
    if (unit === 0x22) break
    if (Number.isNaN(unit)) {
      cursor.at = at
      throw unexpected(cursor)
    }
    at += unit === 0x5c ? 2 : 1
  }
  cursor.at = at + 1
  // The runtime's own parser knows the escapes.
  const value: unknown = JSON.parse(text.slice(start, at + 1))
  return String(value)
}

const readNumber = (cursor: Cursor): number | bigint => {
  NUMBER.lastIndex = cursor.at
  const match = NUMBER.exec(cursor.text)
  if (match === null) throw unexpected(cursor)
  const source = match[0]
  cursor.at += source.length
  const value = Number(source)
  if (match[1] !== undefined || match[2] !== undefined || Number.isSafeInteger(value) || source.endsWith("y"))
    return value
  if (source.length > MAX_DIGITS) throw new SyntaxError(`an integer of more than ${MAX_DIGITS} digits`)
  return BigInt(source)
}

const readList = (cursor: Cursor, depth: number): unknown => {
  const list: Array<unknown> = []
  cursor.at++
  skipBlanks(cursor)
  if (cursor.text[cursor.at] === "]") {
    cursor.at++
    return list
  }
  for (;;) {
    list.push(readValue(cursor, depth - 1))
    skipBlanks(cursor)
    if (cursor.text[cursor.at] === "]") {
      cursor.at++
      return list
    }
    take(cursor, ",")
  }
}

const readMap = (cursor: Cursor, depth: number): unknown => {
  const map: Record<string, unknown> = {}
  cursor.at++
  skipBlanks(cursor)
  if (cursor.text[cursor.at] === "}") {
    cursor.at++
    return map
  }
  for (;;) {
    skipBlanks(cursor)
    if (cursor.text[cursor.at] !== '"') throw unexpected(cursor)
    const key = readText(cursor)
    skipBlanks(cursor)
    take(cursor, ":")
    const value = readValue(cursor, depth - 1)
    if (key !== "__proto__") map[key] = value
    skipBlanks(cursor)
    if (cursor.text[cursor.at] === "}") {
      cursor.at++
      return map
    }
    take(cursor, ",")
  }
}

const readWord = (cursor: Cursor, word: string, value: unknown): unknown => {
  take(cursor, word)
  return value
}

const readValue = (cursor: Cursor, depth: number): unknown => {
  skipBlanks(cursor)
  switch (cursor.text[cursor.at]) {
    case "{":
    case "[":
      if (depth === 0) throw tooDeep()
      return cursor.text[cursor.at] === "{" ? readMap(cursor, depth) : readList(cursor, depth)
    case '"':
      return readText(cursor)
    case "t":
      return readWord(cursor, "true", true)
    case "f":
      return readWord(cursor, "false", false)
    case "n":
      return readWord(cursor, "null", null)
    case "N":
      return readWord(cursor, "NaN", Number.NaN)
    default:
      return readNumber(cursor)
  }
}

/** The value of a JSON text. Throws a SyntaxError on what is no JSON, a RangeError on what lies too deep. */
export const parseExactJson = (text: string): unknown => {
  const cursor: Cursor = { text, at: 0 }
  const value = readValue(cursor, MAX_DEPTH)
  skipBlanks(cursor)
  if (cursor.at < text.length) throw unexpected(cursor)
  return value
}
