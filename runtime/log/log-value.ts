/** Values of any kind as a log line can hold them. Pure, bounded in size, and never fails, whatever it is given. */

/** Longest text of one line, in characters, and how many values it may hold. */
const MAX_CHARACTERS = 16_384
const MAX_VALUES = 1_000
const MAX_DEPTH = 10

export interface Bounds {
  /** Characters that all texts together may have. Defaults to 16,384. */
  readonly characters?: number
  /** What stands in the place of a value that is not to be seen; nothing: it may be seen. */
  readonly hide?: (key: string) => string | undefined
}

export const cut = (text: string, most: number): string =>
  text.length <= most ? text : `${text.slice(0, Math.max(0, most - 1))}…`

/**
 * A copy that is JSON: texts are cut, what is left out is said to be (`…`). An error becomes its stack. Cycles, BigInt,
 * getters that throw and `__proto__` do no harm.
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
    // Without a prototype, so that `__proto__` is a key like any other.
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

/** What a terminal obeys instead of showing it: controls, ends of lines, and marks that turn the direction of a text. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what this is about
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g

const escaped = (control: string): string => `\\u${control.charCodeAt(0).toString(16).padStart(4, "0")}`

/** A text in one line, without what a terminal could obey: control characters as JSON writes them. */
export const inOneLine = (text: string): string => text.replace(CONTROLS, escaped)

/** A text of any number of lines, otherwise the same. */
export const visible = (text: string): string =>
  text.replace(CONTROLS, (control) => (control === "\n" || control === "\t" ? control : escaped(control)))

/** The same for people: it may have several lines, and none of them looks like the beginning of an entry. */
export const indented = (text: string): string => text.split(/\r?\n/).map(inOneLine).join("\n  ")
