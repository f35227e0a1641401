/**
 * JSON as kombu writes and reads it: plain JSON by the runtime's own parser wherever that is exact, and by
 * {@link parseExactJson} where it is not (bare NaN and Infinity, integers beyond 2⁵³). Typed values travel as
 * `{"__type__": …, "__value__": …}`.
 *
 * What a job gives back is stored and shown in strict JSON, which any parser reads: {@link jsonForm}. It is written by the
 * same writer, so that arguments and results follow one rule; the numbers that strict JSON lacks are typed values in it.
 */

import * as Result from "effect/Result"
import { decodeBase64 } from "../exact.ts"
import { isObject, isPlainObject, isSafeEntry, unsafeKey } from "../guards.ts"
import { encoder, strictDecoder } from "../text.ts"
import { exact, exactDate } from "../value.ts"
import {
  type Codec,
  type CodecFailure,
  MAX_DEPTH,
  MAX_DIGITS,
  readFailure,
  tooDeep,
  unserialisable,
  writeFailure,
} from "./codec.ts"
import { parseExactJson } from "./exact-json.ts"
import { type Form, isPlainNumber, type NoJson, noJson, numberText, typed, write } from "./json-writer.ts"

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
        // The error is made below, as for every value that does not fit its type.
      }
      break
    case "int":
      if (typeof value === "string" && INTEGER.test(value) && value.length <= MAX_DIGITS) return integerOf(value)
      break
    case "float":
      if (value === "NaN" || value === "Infinity" || value === "-Infinity") return Number(value)
      break
    default:
      throw new SyntaxError(`__type__ ${JSON.stringify(type)?.slice(0, 60)} is unknown`)
  }
  throw new SyntaxError(`__value__ is not a ${type}`)
}

const INTEGER = /^-?\d+$/

const integerOf = (text: string): number | bigint => {
  const value = Number(text)
  return Number.isSafeInteger(value) ? value : BigInt(text)
}

const dashed = (value: unknown): string => {
  const hex = isObject(value) && "hex" in value ? value.hex : undefined
  if (typeof hex !== "string" || hex.length !== 32) return ""
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

/** Settles what the runtime's parser left: depth, unsafe keys, typed values. Changes lists and maps in place. */
const settle = (value: object, depth: number): unknown => {
  if (depth === 0) throw tooDeep()
  if (isNoList(value)) return settleMap(value, depth)
  if (!Array.isArray(value)) return value
  for (let at = 0; at < value.length; at++) {
    const item: unknown = value[at]
    if (isObject(item)) value[at] = settle(item, depth - 1)
  }
  return value
}

const isNoList = (value: object): value is Record<string, unknown> => !Array.isArray(value)

const settleMap = (map: Record<string, unknown>, depth: number): unknown => {
  let size = 0
  for (const key in map) {
    const item = map[key]
    if (!isSafeEntry(key, item)) throw new SyntaxError(unsafeKey(key))
    size++
    if (isObject(item)) map[key] = settle(item, depth - 1)
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
    text = strictDecoder.decode(bytes)
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
    return Result.succeed(isObject(value) ? settle(value, MAX_DEPTH) : value)
  } catch (cause) {
    return Result.fail(readFailure(cause, "JSON"))
  }
}

// ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Whether a key is looked at when it is written. */
const isSpecial = (key: string): boolean => key === "__type__" || key === "__proto__" || key === "constructor"

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
  for (const key in value) if (isSpecial(key) || !isPlain(value[key], depth - 1)) return false
  return true
}

/** The value of a map that is given in the form of a typed value, since its reader will take it for one. */
const givenAsTyped = (type: unknown, value: unknown, path: string): unknown => {
  try {
    return typedValue(type, value)
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw unserialisable(path, `looks like a typed value but is not: ${why}`)
  }
}

const PYTHON: Form = { number: numberText, bigint: String, asTyped: givenAsTyped }

const STRICT: Form = {
  // JSON.stringify drops the sign of 0.
  number: (value) => (Number.isFinite(value) ? JSON.stringify(value) : typed("float", String(value))),
  bigint: (value) => (Number.isSafeInteger(Number(value)) ? String(value) : typed("int", String(value))),
  asTyped: givenAsTyped,
}

/**
 * A value as JSON text that kombu reads to the same meaning. Fails with `unserialisable` (naming the place) on functions,
 * symbols, invalid dates, Errors and other objects of which nothing would arrive, and what throws while it is read, with
 * `too-deep` on cycles.
 */
export const renderJson = (value: unknown): Result.Result<string, CodecFailure> => {
  try {
    if (!isPlain(value, MAX_DEPTH)) return Result.succeed(write(value, MAX_DEPTH, "", PYTHON))
    return Result.succeed(JSON.stringify(value) ?? "null")
  } catch (cause) {
    return Result.fail(writeFailure(cause, "JSON"))
  }
}

const encode = (value: unknown): Result.Result<Uint8Array, CodecFailure> => {
  const text = renderJson(value)
  return Result.isFailure(text) ? Result.fail(text.failure) : Result.succeed(encoder.encode(text.success))
}

// ── results ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const NOT_PLAIN = Symbol("not plain")

/** A copy of a value that is strict JSON already; {@link NOT_PLAIN} for one that holds anything else. */
const plainCopy = (value: unknown, depth: number): unknown => {
  switch (typeof value) {
    case "string":
    case "boolean":
    case "undefined":
      return value
    case "number":
      // Without the sign of 0, as it is stored.
      return Number.isFinite(value) ? value + 0 : NOT_PLAIN
    case "object":
      break
    default:
      return NOT_PLAIN
  }
  if (value === null) return null
  if (depth === 0) return NOT_PLAIN
  if (Array.isArray(value)) {
    const list: Array<unknown> = []
    for (let at = 0; at < value.length; at++) {
      const item = plainCopy(value[at], depth - 1)
      if (item === NOT_PLAIN) return NOT_PLAIN
      list.push(item === undefined ? null : item)
    }
    return list
  }
  if (!isPlainObject(value)) return NOT_PLAIN
  const map: Record<string, unknown> = {}
  for (const key in value) {
    if (isSpecial(key)) return NOT_PLAIN
    const item = plainCopy(value[key], depth - 1)
    if (item === NOT_PLAIN) return NOT_PLAIN
    if (item !== undefined) map[key] = item
  }
  return map
}

/** A copy of a value as it travels; `undefined` for one that strict JSON cannot express. */
export const strictJson = (value: unknown): unknown => {
  const plain = plainCopy(value, MAX_DEPTH)
  return plain === NOT_PLAIN ? undefined : plain
}

/**
 * A value in strict JSON, as a record stores it and HTTP shows it: a copy, in which what JSON lacks is a typed value, also
 * `{"__type__": "int", …}` for integers beyond ±(2⁵³−1) and `{"__type__": "float", …}` for what is not finite. -0 is 0.
 * Fails, naming the place, where {@link renderJson} fails and on a map that looks like a typed value and is none. `name`: of
 * the value, which begins the place, such as `result.items[3]`.
 */
export const jsonForm = (value: unknown, name: string): Result.Result<unknown, NoJson> => {
  if (value === undefined || value === null) return Result.succeed(value)
  try {
    const plain = plainCopy(value, MAX_DEPTH)
    if (plain !== NOT_PLAIN) return Result.succeed(plain)
    return Result.succeed(JSON.parse(write(value, MAX_DEPTH, name, STRICT)))
  } catch (cause) {
    return Result.fail(noJson(cause, name))
  }
}

/** The value of a {@link jsonForm}, which is left as it is. A form that holds no typed value is its own value. */
export const ofJsonForm = (form: unknown): unknown => {
  if (!isObject(form) || !holdsTyped(form)) return form
  try {
    return settle(JSON.parse(JSON.stringify(form)), MAX_DEPTH)
  } catch {
    // Not written by `jsonForm`: an older Callboard stored such maps as they came.
    return form
  }
}

const holdsTyped = (form: unknown): boolean => {
  if (!isObject(form)) return false
  if (!isNoList(form)) return Array.isArray(form) && form.some(holdsTyped)
  if ("__type__" in form) return true
  for (const key in form) if (holdsTyped(form[key])) return true
  return false
}

/** Celery's default serialisation. */
export const jsonCodec: Codec = {
  contentType: "application/json",
  contentEncoding: "utf-8",
  holds: "task",
  decode,
  encode,
}
