/**
 * JSON with what Python adds to it: bare `NaN`, `Infinity` and `-Infinity`, and integers of any size, which become
 * `bigint` where a double cannot hold them. The runtime's own parser shows how a number was written; so that it takes the
 * bare words, they are given to it as numbers. That costs more than plain parsing, so it is used only where that fails or
 * rounds. Everything else is as strict as RFC 8259; of a key that comes twice the last one counts.
 */
import { MAX_DEPTH, MAX_DIGITS, tooDeep } from "./codec.ts"

/** The beginning of a text, what opens or closes a list or map, or a bare word. */
const NEXT = /"|[[\]{}]|-?Infinity|NaN/g

/** Nothing that any program writes: a zero. */
const NAN = "0e-0999999"
const INFINITY = "1e999999"

/** Where a text ends that begins at a place; the end of everything when it does not end. */
const endOfText = (text: string, start: number): number => {
  for (let at = start + 1; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit === 0x22) return at + 1
    if (unit === 0x5c) at++
  }
  return text.length
}

/**
 * Bare words as numbers, between blanks, so that what stands beside them does not join them. Throws a RangeError on what
 * lies too deep, because the parser is not asked about that before it has read everything.
 */
const withoutWords = (text: string): string => {
  let [written, from] = ["", 0]
  let depth = 0
  NEXT.lastIndex = 0
  for (let found = NEXT.exec(text); found !== null; found = NEXT.exec(text)) {
    const [word] = found
    if (word === '"') {
      NEXT.lastIndex = endOfText(text, found.index)
    } else if (word === "[" || word === "{") {
      if (++depth > MAX_DEPTH) throw tooDeep()
    } else if (word === "]" || word === "}") {
      depth--
    } else {
      written += `${text.slice(from, found.index)} ${word === "NaN" ? NAN : word.replace("Infinity", INFINITY)} `
      from = NEXT.lastIndex
    }
  }
  return written + text.slice(from)
}

const exactNumber = (value: number, source: string): number | bigint => {
  if (source === NAN) return Number.NaN
  if (Number.isSafeInteger(value) || !/^-?\d+$/.test(source)) return value
  if (source.length > MAX_DIGITS) throw new SyntaxError(`an integer of more than ${MAX_DIGITS} digits`)
  return BigInt(source)
}

/** Parses a JSON text. Throws a SyntaxError where it is no JSON, and a RangeError where it is nested too deep. */
export const parseExactJson = (text: string): unknown =>
  JSON.parse(withoutWords(text), (_key: string, value: unknown, context?: { readonly source?: string }) =>
    typeof value === "number" ? exactNumber(value, context?.source ?? "") : value,
  )
