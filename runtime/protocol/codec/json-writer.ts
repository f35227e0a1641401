/**
 * Writes values as JSON, with kombu's typed values, and checks what is carried as plain JSON. No library is needed for it,
 * so that a client in a browser writes as every other one.
 */
import { dateText, Exact, encodeBase64 } from "../exact.ts"
import { isSafeEntry, unsafeKey } from "../guards.ts"
import { MAX_DEPTH, MAX_DIGITS, ownEntries, tooDeep, Unserialisable, unserialisable } from "./codec.ts"

/**
 * `JSON.stringify` writes integers between 2⁵³ and 10²¹ without an exponent, and they would be read as exact integers
 * that they are not; of the others it loses what is not finite, and the sign of 0.
 */
export const isPlainNumber = (value: number): boolean =>
  Number.isSafeInteger(value)
    ? value !== 0 || !Object.is(value, -0)
    : Number.isFinite(value) && (!Number.isInteger(value) || Math.abs(value) >= 1e21)

/** A number with its sign of 0, which is no exact integer unless it is a safe one. */
export const numberText = (value: number): string => {
  if (Object.is(value, -0)) return "-0.0"
  return isPlainNumber(value) || !Number.isFinite(value) ? String(value) : value.toExponential()
}

export const typed = (type: string, value: unknown): string => JSON.stringify({ __type__: type, __value__: value })

/** Python's `fromisoformat` before 3.11 knows microseconds, not more, and no `Z`. */
const pythonTime = (text: string): string => text.replace(/(\.\d{6})\d+/, "$1").replace(/[zZ]$/, "+00:00")

/** How a value is written that strict JSON lacks: as Python's json does, or as a typed value. */
export interface Form {
  readonly number: (value: number) => string
  readonly bigint: (value: bigint) => string
  /** What is written for a map that is given in the form of a typed value, since its reader will take it for one. */
  readonly asTyped: (type: unknown, value: unknown, path: string) => unknown
}

export const write = (value: unknown, depth: number, path: string, form: Form): string => {
  switch (typeof value) {
    case "string":
    case "boolean":
      return JSON.stringify(value)
    case "undefined":
      return "null"
    case "number":
      return form.number(value)
    case "bigint":
      if (String(value).length > MAX_DIGITS)
        throw unserialisable(path, `is an integer of more than ${MAX_DIGITS} digits`)
      return form.bigint(value)
    case "object":
      return value === null ? "null" : writeObject(value, depth, path, form)
    default:
      throw unserialisable(path, `is a ${typeof value}, which cannot be sent`)
  }
}

const writeObject = (value: object, depth: number, path: string, form: Form): string => {
  if (depth === 0) throw tooDeep(path)
  if (Array.isArray(value)) {
    // Array.from, because `map` passes over holes.
    return `[${Array.from(value, (item: unknown, at) => write(item, depth - 1, `${path}[${at}]`, form)).join(",")}]`
  }
  if (value instanceof Date) {
    const text = dateText(value)
    if (text === "") throw unserialisable(path, "is an invalid date")
    return typed("datetime", pythonTime(text))
  }
  if (value instanceof Exact) {
    return typed(value.type, value.type === "uuid" ? { hex: value.text.replaceAll("-", "") } : value.text)
  }
  if (value instanceof Uint8Array) return typed("base64", encodeBase64(value))
  if (value instanceof ArrayBuffer) return typed("base64", encodeBase64(new Uint8Array(value)))
  if (ArrayBuffer.isView(value)) {
    return typed("base64", encodeBase64(new Uint8Array(value.buffer, value.byteOffset, value.byteLength)))
  }
  if (value instanceof Set) return writeObject([...value], depth, path, form)
  if (value instanceof Map) {
    return writeEntries(
      [...value].map(([key, item]): [string, unknown] => [keyText(key, path), item]),
      depth,
      path,
      form,
    )
  }
  if ("toJSON" in value && typeof value.toJSON === "function") return write(value.toJSON(""), depth - 1, path, form)
  return writeEntries(ownEntries(value, path), depth, path, form)
}

/** The answer of a form that writes a map as it is given. */
export const AS_GIVEN = Symbol("as given")

/** Python's json: numbers, booleans and null become text as keys; anything else fails at the sender. */
const keyText = (key: unknown, path: string): string => {
  if (typeof key === "string") return key
  if (key === null || typeof key === "number" || typeof key === "boolean" || typeof key === "bigint") return String(key)
  throw unserialisable(path, "has a key that is neither text nor a number")
}

const writeEntries = (
  entries: ReadonlyArray<readonly [string, unknown]>,
  depth: number,
  path: string,
  form: Form,
): string => {
  if (entries.length === 2) {
    const { __type__: type, __value__: value } = Object.fromEntries(entries)
    if (type !== undefined && value !== undefined) {
      const given = form.asTyped(type, value, path)
      if (given !== AS_GIVEN) return write(given, depth, path, form)
    }
  }
  const parts: Array<string> = []
  for (const [key, item] of entries) {
    if (item === undefined) continue
    if (!isSafeEntry(key, item)) throw unserialisable(`${path}.${key}`, `cannot be sent: ${unsafeKey(key)}`)
    parts.push(`${JSON.stringify(key)}:${write(item, depth - 1, `${path}.${key}`, form)}`)
  }
  return `{${parts.join(",")}}`
}

/** Why a value cannot be written as JSON. */
export interface NoJson {
  /** The name of the value, and the way from there, such as `result.items[3]`. */
  readonly place: string
  /** A sentence. */
  readonly message: string
}

export const noJson = (cause: unknown, name: string): NoJson => {
  if (cause instanceof Unserialisable) return { place: cause.path, message: cause.message }
  const isDeep = cause instanceof RangeError
  return { place: name, message: isDeep ? cause.message : `${name} cannot be written as JSON: ${String(cause)}` }
}

/**
 * The text of `JSON.stringify`, for what is carried as plain JSON, such as meta data: a date is its text there, and nothing
 * is a typed value. Otherwise why not, naming the place, for what this text would not tell: numbers that are not finite, integers of
 * type `bigint`, bytes, and what `jsonForm` refuses or takes from the inside of an object, such as a `Map`.
 */
export const plainJson = (value: unknown, name: string): { readonly json: string } | NoJson => {
  try {
    checkPlain(value, MAX_DEPTH, name)
    return { json: JSON.stringify(value) ?? "null" }
  } catch (cause) {
    return noJson(cause, name)
  }
}

const checkPlain = (value: unknown, depth: number, path: string): void => {
  switch (typeof value) {
    case "string":
    case "boolean":
    case "undefined":
      return
    case "number":
      if (Number.isFinite(value)) return
      throw unserialisable(path, `is ${value}, which JSON lacks: send text`)
    case "object":
      break
    default:
      throw unserialisable(path, `is a ${typeof value}, which JSON lacks`)
  }
  if (value === null) return
  if (depth === 0) throw tooDeep(path)
  if (Array.isArray(value)) {
    for (const [at, item] of value.entries()) checkPlain(item, depth - 1, `${path}[${at}]`)
    return
  }
  if (value instanceof Date && dateText(value) === "") throw unserialisable(path, "is an invalid date")
  if (ArrayBuffer.isView(value)) throw unserialisable(path, "holds bytes, which JSON lacks: send text, such as base64")
  if ("toJSON" in value && typeof value.toJSON === "function") checkPlain(value.toJSON(""), depth - 1, path)
  else
    for (const [key, item] of ownEntries(value, path)) {
      if (!isSafeEntry(key, item)) throw unserialisable(`${path}.${key}`, `cannot be sent: ${unsafeKey(key)}`)
      checkPlain(item, depth - 1, `${path}.${key}`)
    }
}
