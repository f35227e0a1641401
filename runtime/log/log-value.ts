/** Turns any value into one that a log line can hold. Pure, bounded in size; never fails, whatever the value. */
import { cut } from "../protocol/text.ts"

/** Bounds of one line: characters in all its texts, and number of its values. */
const MAX_CHARACTERS = 16_384
const MAX_VALUES = 1_000
const MAX_DEPTH = 10

export interface Bounds {
  /** Characters of all texts together. Defaults to 16,384. */
  readonly characters?: number
  /** The text to show instead of the value of this key; `undefined`: the value is shown. */
  readonly hide?: (key: string) => string | undefined
}

/**
 * A copy of the value that is JSON. Long texts are cut, and `…` marks every place where something was left out. An error
 * becomes its stack. Cycles, BigInt, getters that throw and `__proto__` do no harm.
 */
export const loggable = (value: unknown, bounds: Bounds = {}): unknown => {
  let characters = bounds.characters ?? MAX_CHARACTERS
  let values = MAX_VALUES
  const open = new Set<object>()

  const text = (whole: string): string => {
    const kept = cut(whole, characters)
    characters -= kept.length
    return kept
  }

  const visit = (value: unknown): unknown => {
    switch (typeof value) {
      case "string":
        return text(value)
      case "number":
        return Number.isFinite(value) ? value : String(value)
      case "boolean":
      case "undefined":
        return value
      case "object":
        return value === null ? null : enter(value)
      case "function":
        return "(function)"
      default:
        return text(String(value))
    }
  }

  const enter = (value: object): unknown => {
    if (open.has(value)) return "(itself)"
    if (values <= 0 || characters <= 0 || open.size >= MAX_DEPTH) return "…"
    open.add(value)
    try {
      return inside(value)
    } catch {
      return "(unreadable)"
    } finally {
      open.delete(value)
    }
  }

  const inside = (value: object): unknown => {
    if (value instanceof Error) return text(errorText(value))
    if (value instanceof Date) return Number.isNaN(value.getTime()) ? "(invalid date)" : value.toISOString()
    if (ArrayBuffer.isView(value)) return `(${value.byteLength} bytes)`
    if (value instanceof Map || value instanceof Set) return list(value)
    if (Array.isArray(value)) return list(value)
    if ("toJSON" in value && typeof value.toJSON === "function") return visit(value.toJSON())
    return map(value)
  }

  const list = (items: Iterable<unknown>): ReadonlyArray<unknown> => {
    const copy: Array<unknown> = []
    for (const item of items) {
      if (--values < 0 || characters <= 0) {
        copy.push("…")
        break
      }
      copy.push(visit(item) ?? null)
    }
    return copy
  }

  const map = (value: object): object => {
    // Without a prototype, so that a key `__proto__` is a plain key.
    const copy: Record<string, unknown> = Object.create(null)
    for (const key of Object.keys(value)) {
      if (--values < 0 || characters <= 0) {
        copy["…"] = "…"
        break
      }
      copy[text(key)] = bounds.hide?.(key) ?? visit(property(value, key))
    }
    return copy
  }

  return visit(value)
}

const property = (value: object, key: string): unknown => {
  try {
    return Reflect.get(value, key)
  } catch {
    return "(unreadable)"
  }
}

const errorText = (error: Error): string => {
  const { stack, name, message } = error
  return typeof stack === "string" && stack !== "" ? stack : `${name}: ${message}`
}

/**
 * Characters that a terminal obeys instead of showing them: controls, line ends, and marks that change the direction of
 * text.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g

const escaped = (control: string): string => `\\u${control.charCodeAt(0).toString(16).padStart(4, "0")}`

/** A text as one line that is safe on a terminal: control characters and line ends are escaped as in JSON. */
export const inOneLine = (text: string): string => text.replace(CONTROLS, escaped)

/** As {@link inOneLine}, but line ends and tabs stay. */
export const visible = (text: string): string =>
  text.replace(CONTROLS, (control) => (control === "\n" || control === "\t" ? control : escaped(control)))

/**
 * As {@link inOneLine} for each line of a text, with all lines but the first indented, so that none looks like a new
 * log line.
 */
export const indented = (text: string): string => text.split(/\r?\n/).map(inOneLine).join("\n  ")
