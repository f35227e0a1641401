/**
 * JSON as kombu writes and reads it: plain JSON by the runtime's own parser wherever that is exact, and by
 * {@link parseExactJson} where it is not (bare NaN and Infinity, integers beyond 2⁵³). Typed values travel as
 * `{"__type__": …, "__value__": …}`.
 */
import * as Result from "effect/Result"
import { decodeBase64, encodeBase64 } from "../base64.ts"
import { dateText, Exact, exact, exactDate, isPlainObject, isSafeEntry } from "../value.ts"
import {
  type Codec,
  type CodecFailure,
  MAX_DEPTH,
  readFailure,
  tooDeep,
  unserialisable,
  writeFailure,
} from "./codec.ts"
import { parseExactJson } from "./exact-json.ts"

const encoder = new TextEncoder()
const decoder = new TextDecoder("utf-8", { fatal: true })

// ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A run of digits that a double may not hold. Only a hint: digits of a fraction or inside text match as well. */
const MANY_DIGITS = /\d{16}/
/** The same without what follows a decimal point. */
const BIG_INTEGER = /(?:^|[[:,\s])-?\d{16,}(?=[\s,\]}]|$)/
const NOT_FINITE = /NaN|Infinity/

/** The value of a `{"__type__", "__value__"}` pair. kombu 5.6: an unknown type makes the whole body undecodable. */
const typedValue = (type: unknown, value: unknown): unknown => {
  switch (type) {
    case "datetime": {
      const date = typeof value === "string" ? exactDate(value) : undefined
      if (date !== undefined && Result.isSuccess(date)) return date.success
      break
    }
    case "date":
    case "time":
    case "decimal": {
      const found = typeof value === "string" ? exact(type, value) : undefined
      if (found !== undefined) return found
      break
    }
    case "uuid": {
      const found = exact("uuid", dashed(value))
      if (found !== undefined) return found
      break
    }
    case "bytes":
      if (typeof value === "string") return encoder.encode(value)
      break
    case "base64":
      try {
        if (typeof value === "string") return decodeBase64(value)
      } catch {
        // Said below.
      }
      break
    default:
      throw new SyntaxError(`__type__ ${JSON.stringify(type)?.slice(0, 60)} is not known`)
  }
  throw new SyntaxError(`__value__ is no ${type}`)
}

const dashed = (value: unknown): string => {
  const hex = typeof value === "object" && value !== null && "hex" in value ? value.hex : undefined
  if (typeof hex !== "string" || hex.length !== 32) return ""
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

/** Settles what the runtime's parser left: depth, unsafe keys, typed values. Changes lists and maps in place. */
const settle = (value: object, depth: number): unknown => {
  if (depth === 0) throw tooDeep()
  if (isMap(value)) return settleMap(value, depth)
  if (!Array.isArray(value)) return value
  for (let at = 0; at < value.length; at++) {
    const item: unknown = value[at]
    if (typeof item === "object" && item !== null) value[at] = settle(item, depth - 1)
  }
  return value
}

const isMap = (value: object): value is Record<string, unknown> => !Array.isArray(value)

const settleMap = (map: Record<string, unknown>, depth: number): unknown => {
  let size = 0
  for (const key in map) {
    const item = map[key]
    if (!isSafeEntry(key, item)) {
      delete map[key]
      continue
    }
    size++
    if (typeof item === "object" && item !== null) map[key] = settle(item, depth - 1)
  }
  if (size !== 2 || map.__type__ === undefined || !("__value__" in map)) return map
  return typedValue(map.__type__, map.__value__)
}

const parse = (text: string): unknown => {
  if (MANY_DIGITS.test(text) && BIG_INTEGER.test(text)) return parseExactJson(text)
  try {
    return JSON.parse(text)
  } catch (cause) {
    if (NOT_FINITE.test(text)) return parseExactJson(text)
    throw cause
  }
}

const decode = (bytes: Uint8Array): Result.Result<unknown, CodecFailure> => {
  let text: string
  try {
    text = decoder.decode(bytes)
  } catch {
    return Result.fail(readFailure("the bytes are not UTF-8", "JSON"))
  }
  return parseJson(text)
}

/**
 * The value of a JSON text, with kombu's typed values and numbers as they were meant (see `value.ts`). Fails with
 * `malformed` or `too-deep`.
 */
export const parseJson = (text: string): Result.Result<unknown, CodecFailure> => {
  try {
    const value = parse(text)
    return Result.succeed(typeof value === "object" && value !== null ? settle(value, MAX_DEPTH) : value)
  } catch (cause) {
    return Result.fail(readFailure(cause, "JSON"))
  }
}

// ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * `JSON.stringify` writes integers between 2⁵³ and 10²¹ without an exponent, and they would be read as exact integers
 * that they are not; of the others it loses what is not finite, and the sign of 0.
 */
const isPlainNumber = (value: number): boolean =>
  Number.isSafeInteger(value)
    ? value !== 0 || !Object.is(value, -0)
    : Number.isFinite(value) && (!Number.isInteger(value) || Math.abs(value) >= 1e21)

const numberText = (value: number): string => {
  if (Object.is(value, -0)) return "-0.0"
  return isPlainNumber(value) || !Number.isFinite(value) ? String(value) : value.toExponential()
}

/** Whether `JSON.stringify` says exactly what this value means. */
const isPlain = (value: unknown, depth: number): boolean => {
  switch (typeof value) {
    case "string":
    case "boolean":
    case "undefined":
      return true
    case "number":
      return isPlainNumber(value)
    case "object":
      break
    default:
      return false
  }
  if (value === null) return true
  if (depth === 0) return false
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at++) if (!isPlain(value[at], depth - 1)) return false
    return true
  }
  if (!isPlainObject(value)) return false
  for (const key in value) if (!isPlain(value[key], depth - 1)) return false
  return true
}

const typed = (type: string, value: unknown): string => JSON.stringify({ __type__: type, __value__: value })

/** Python's `fromisoformat` before 3.11 knows microseconds, not more, and no `Z`. */
const pythonTime = (text: string): string => text.replace(/(\.\d{6})\d+/, "$1").replace(/[zZ]$/, "+00:00")

const write = (value: unknown, depth: number, path: string): string => {
  switch (typeof value) {
    case "string":
    case "boolean":
      return JSON.stringify(value)
    case "undefined":
      return "null"
    case "number":
      return numberText(value)
    case "bigint":
      return value.toString()
    case "object":
      return value === null ? "null" : writeObject(value, depth, path)
    default:
      throw unserialisable(path, `is a ${typeof value}, which cannot be sent`)
  }
}

const writeObject = (value: object, depth: number, path: string): string => {
  if (depth === 0) throw tooDeep()
  if (Array.isArray(value)) {
    // Array.from, because `map` passes over holes.
    return `[${Array.from(value, (item: unknown, at) => write(item, depth - 1, `${path}[${at}]`)).join(",")}]`
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
  if (value instanceof Set) return writeObject([...value], depth, path)
  if (value instanceof Map) {
    return writeEntries(
      [...value].map(([key, item]): [string, unknown] => [keyText(key, path), item]),
      depth,
      path,
    )
  }
  if ("toJSON" in value && typeof value.toJSON === "function") return write(value.toJSON(""), depth - 1, path)
  return writeEntries(Object.entries(value), depth, path)
}

/** Python's json: numbers, booleans and null become text as keys; anything else fails at the sender. */
const keyText = (key: unknown, path: string): string => {
  if (typeof key === "string") return key
  if (key === null || typeof key === "number" || typeof key === "boolean" || typeof key === "bigint") return String(key)
  throw unserialisable(path, "has a key that is neither text nor a number")
}

const writeEntries = (entries: ReadonlyArray<readonly [string, unknown]>, depth: number, path: string): string => {
  const parts: Array<string> = []
  for (const [key, item] of entries) {
    if (item !== undefined) parts.push(`${JSON.stringify(key)}:${write(item, depth - 1, `${path}.${key}`)}`)
  }
  return `{${parts.join(",")}}`
}

/**
 * A value as JSON text that kombu reads to the same meaning. Fails with `unserialisable` (naming the place) on functions,
 * symbols, invalid dates and what throws while it is read, with `too-deep` on cycles.
 */
export const renderJson = (value: unknown): Result.Result<string, CodecFailure> => {
  try {
    if (!isPlain(value, MAX_DEPTH)) return Result.succeed(write(value, MAX_DEPTH, ""))
    return Result.succeed(JSON.stringify(value) ?? "null")
  } catch (cause) {
    return Result.fail(writeFailure(cause, "JSON"))
  }
}

const encode = (value: unknown): Result.Result<Uint8Array, CodecFailure> => {
  const text = renderJson(value)
  return Result.isFailure(text) ? Result.fail(text.failure) : Result.succeed(encoder.encode(text.success))
}

/** Celery's default serialisation. */
export const jsonCodec: Codec = {
  contentType: "application/json",
  contentEncoding: "utf-8",
  holds: "task",
  decode,
  encode,
}
