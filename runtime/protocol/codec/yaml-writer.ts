/**
 * Writes YAML that PyYAML 6 reads to the same meaning: one line of flow style, every text in double quotes, so that no
 * word can be taken for a number, a truth value or a date.
 */

import { dateText, Exact, encodeBase64 } from "../exact.ts"
import { isObject, isSafeEntry, unsafeKey } from "../guards.ts"
import { MAX_DEPTH, ownEntries, tooDeep, unserialisable } from "./codec.ts"

/**
 * Characters that PyYAML refuses or takes for a line end, and JSON does not escape; most lone surrogates are among
 * them.
 */
const UNPRINTABLE = /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g

const text = (value: string): string =>
  JSON.stringify(value).replace(UNPRINTABLE, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)

/** The fraction of a time, and an offset with seconds, which PyYAML takes for no part of a time. */
const LONG_OFFSET = /(\.\d+)?[+-]\d\d:\d\d:\d\d(?:\.\d+)?$/

/** PyYAML takes for a float what has a dot, and after an `e` a sign. */
const number = (value: number): string => {
  if (Number.isNaN(value)) return ".nan"
  if (!Number.isFinite(value)) return value > 0 ? ".inf" : "-.inf"
  if (Object.is(value, -0)) return "-0.0"
  if (Number.isSafeInteger(value)) return String(value)
  const shown = Number.isInteger(value) ? value.toExponential() : String(value)
  return shown.includes("e") && !shown.includes(".") ? shown.replace("e", ".0e") : shown
}

const write = (value: unknown, depth: number, path: string): string => {
  switch (typeof value) {
    case "string":
      return text(value)
    case "boolean":
      return value ? "true" : "false"
    case "number":
      return number(value)
    case "bigint":
      return value.toString()
    case "undefined":
      return "null"
    case "object":
      return value === null ? "null" : writeObject(value, depth, path)
    default:
      throw unserialisable(path, `is a ${typeof value}, which cannot be sent`)
  }
}

const bytes = (value: Uint8Array): string => `!!binary "${encodeBase64(value)}"`

const writeObject = (value: object, depth: number, path: string): string => {
  if (depth === 0) throw tooDeep()
  if (Array.isArray(value)) {
    // Array.from, because `map` passes over holes.
    return `[${Array.from(value, (item: unknown, at) => write(item, depth - 1, `${path}[${at}]`)).join(", ")}]`
  }
  if (value instanceof Date) {
    const shown = dateText(value)
    if (shown === "") throw unserialisable(path, "is an invalid date")
    const [long, fraction = ""] = LONG_OFFSET.exec(shown) ?? []
    // The instant is the same in UTC.
    const readable = long === undefined ? shown : `${value.toISOString().slice(0, 19)}${fraction}+00:00`
    return readable.replace("T", " ")
  }
  if (value instanceof Exact) {
    if (value.type === "date") return value.text
    throw unserialisable(path, `is a ${value.type}, which YAML cannot represent; send JSON`)
  }
  if (value instanceof Uint8Array) return bytes(value)
  if (value instanceof ArrayBuffer) return bytes(new Uint8Array(value))
  if (ArrayBuffer.isView(value)) return bytes(new Uint8Array(value.buffer, value.byteOffset, value.byteLength))
  if (value instanceof Set) {
    return `!!set ${writeEntries(
      Array.from(value, (item: unknown) => [item, null]),
      depth,
      path,
    )}`
  }
  if (value instanceof Map) return writeEntries([...value], depth, path)
  if ("toJSON" in value && typeof value.toJSON === "function") return write(value.toJSON(""), depth - 1, path)
  return writeEntries(ownEntries(value, path), depth, path)
}

/** PyYAML: a key of more characters must be announced with a question mark. */
const LONG_KEY = 1000

const writeEntries = (entries: ReadonlyArray<readonly [unknown, unknown]>, depth: number, path: string): string => {
  const parts: Array<string> = []
  for (const [key, item] of entries) {
    if (item === undefined) continue
    if (typeof key === "string" && !isSafeEntry(key, item))
      throw unserialisable(`${path}.${key}`, `cannot be sent: ${unsafeKey(key)}`)
    if (isObject(key) && !(key instanceof Date) && !(key instanceof Exact)) {
      throw unserialisable(path, "has a key that is a list or a map")
    }
    const name = write(key, 1, path)
    const shown = write(item, depth - 1, `${path}.${String(key)}`)
    parts.push(name.length > LONG_KEY ? `? ${name} : ${shown}` : `${name}: ${shown}`)
  }
  return `{${parts.join(", ")}}`
}

/**
 * Encodes a value as YAML. Throws Unserialisable for a value that cannot be expressed, a RangeError for one that is
 * nested too deep.
 */
export const writeYaml = (value: unknown): string => `${write(value, MAX_DEPTH, "")}\n`
