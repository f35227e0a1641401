/**
 * MessagePack as kombu reads and writes it: keys are text, integers have 64 bits, extension −1 is a timestamp, and every
 * other extension becomes the library's `ExtData`. As with Celery, decimals, UUIDs and bare dates or times cannot be sent.
 */
import { Encoder, ExtData, ExtensionCodec } from "@msgpack/msgpack"
import * as Result from "effect/Result"
import { dateText, Exact } from "../exact.ts"
import { isSafeEntry, unsafeKey } from "../guards.ts"
import {
  type Codec,
  type CodecFailure,
  MAX_DEPTH,
  ownEntries,
  readFailure,
  tooDeep,
  unserialisable,
  writeFailure,
} from "./codec.ts"
import { readMsgpack, TIMESTAMP } from "./msgpack-reader.ts"

const decode = (bytes: Uint8Array): Result.Result<unknown, CodecFailure> => {
  try {
    return Result.succeed(readMsgpack(bytes))
  } catch (cause) {
    return Result.fail(readFailure(cause, "msgpack"))
  }
}

/** A timestamp in its longest form, which every reader knows: 12 bytes, nanoseconds, then seconds. */
const writeTimestamp = (date: Date): Uint8Array => {
  const seconds = Math.floor(date.getTime() / 1000)
  const fraction = /[.,](\d{1,9})/.exec(dateText(date))?.[1] ?? ""
  const data = new Uint8Array(12)
  const view = new DataView(data.buffer)
  view.setUint32(0, Number(fraction.padEnd(9, "0")))
  view.setBigInt64(4, BigInt(seconds))
  return data
}

/** Without extensions of the library: {@link prepare} decides what may be sent. */
const extensions = new ExtensionCodec()

/** 64-bit integers must be `bigint` for the library, which would write larger numbers as floats otherwise. */
const writer = new Encoder({ useBigInt64: true, extensionCodec: extensions, maxDepth: MAX_DEPTH + 1 })

const MAX_INT64 = 2n ** 63n
const MAX_UINT64 = 2n ** 64n

/** The library would write half of a surrogate pair as bytes that are no UTF-8, at which readers stop. */
const HALF_CHARACTER = "contains half of a surrogate pair, which msgpack cannot represent; send JSON"

/** A copy of the value that the library encodes as intended. */
const prepare = (value: unknown, depth: number, path: string): unknown => {
  switch (typeof value) {
    case "string":
      if (!value.isWellFormed()) throw unserialisable(path, HALF_CHARACTER)
      return value
    case "boolean":
      return value
    case "undefined":
      return null
    case "number":
      return Number.isSafeInteger(value) && (value > 0xffff_ffff || value < -0x8000_0000) ? BigInt(value) : value
    case "bigint":
      if (value >= MAX_UINT64 || value < -MAX_INT64) throw unserialisable(path, "is an integer of more than 64 bits")
      return value
    case "object":
      return value === null ? null : prepareObject(value, depth, path)
    default:
      throw unserialisable(path, `is a ${typeof value}, which cannot be sent`)
  }
}

const prepareObject = (value: object, depth: number, path: string): unknown => {
  if (depth === 0) throw tooDeep()
  if (Array.isArray(value)) {
    return Array.from(value, (item: unknown, at) => prepare(item, depth - 1, `${path}[${at}]`))
  }
  if (value instanceof Date) {
    if (dateText(value) === "") throw unserialisable(path, "is an invalid date")
    return new ExtData(TIMESTAMP, writeTimestamp(value))
  }
  if (value instanceof Exact)
    throw unserialisable(path, `is a ${value.type}, which msgpack cannot represent; send JSON`)
  if (value instanceof ExtData || value instanceof Uint8Array) return value
  if (value instanceof ArrayBuffer) return new Uint8Array(value)
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
  if (value instanceof Set) return prepareObject([...value], depth, path)
  if (value instanceof Map) return prepareEntries([...value], depth, path)
  if ("toJSON" in value && typeof value.toJSON === "function") return prepare(value.toJSON(""), depth - 1, path)
  return prepareEntries(ownEntries(value, path), depth, path)
}

const prepareEntries = (entries: ReadonlyArray<readonly [unknown, unknown]>, depth: number, path: string): unknown => {
  const map: Record<string, unknown> = {}
  for (const [key, item] of entries) {
    if (typeof key !== "string") throw unserialisable(path, "has a key that is not text")
    if (!key.isWellFormed()) throw unserialisable(path, `has a key that ${HALF_CHARACTER}`)
    if (item === undefined) continue
    if (!isSafeEntry(key, item)) throw unserialisable(`${path}.${key}`, `cannot be sent: ${unsafeKey(key)}`)
    map[key] = prepare(item, depth - 1, `${path}.${key}`)
  }
  return map
}

const encode = (value: unknown): Result.Result<Uint8Array, CodecFailure> => {
  try {
    return Result.succeed(writer.encode(prepare(value, MAX_DEPTH, "")))
  } catch (cause) {
    return Result.fail(writeFailure(cause, "msgpack"))
  }
}

/** `msgpack` in Celery. */
export const msgpackCodec: Codec = {
  contentType: "application/x-msgpack",
  aliases: ["application/msgpack", "application/vnd.msgpack"],
  contentEncoding: "binary",
  holds: "task",
  decode,
  encode,
}
