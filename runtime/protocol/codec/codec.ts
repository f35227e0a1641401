/**
 * Codecs: they decode and encode bodies of one content type. Applications can register more (protobuf, Thrift). Here is
 * what all codecs share: their form, their registry, and their errors.
 */

import type * as Result from "effect/Result"
import { isPlainObject } from "../guards.ts"
import { beginning } from "../text.ts"

/** Why bytes cannot be decoded, or a value cannot be encoded. */
export interface CodecFailure {
  readonly _tag: "CodecFailure"
  readonly reason: "malformed" | "too-deep" | "too-large" | "unserialisable"
  readonly message: string
}

/** A codec of one format. Its functions must not throw, and must not keep what they are given. */
export interface Codec {
  /** Without parameters and in lower case, e.g. `application/json`. */
  readonly contentType: string
  /** Other content types that it decodes. */
  readonly aliases?: ReadonlyArray<string>
  /** Value of `content_encoding`: `utf-8` for text, `binary` for bytes. */
  readonly contentEncoding: "utf-8" | "binary"
  /**
   * What a decoded value is: `task` for Celery's `[args, kwargs, embed]`, `argument` for the single argument of the method.
   * Defaults to `argument`.
   */
  readonly holds?: "task" | "argument"
  readonly decode: (bytes: Uint8Array) => Result.Result<unknown, CodecFailure>
  readonly encode: (value: unknown) => Result.Result<Uint8Array, CodecFailure>
}

/** Codecs by content type and alias. */
export type Codecs = ReadonlyMap<string, Codec>

/** Deepest nesting of lists and maps. Nested chains of Celery take three levels per step. */
export const MAX_DEPTH = 500

/** Python 3.11: integers of more digits are refused, because reading them takes time that grows with their square. */
export const MAX_DIGITS = 4300

/** A registry of codecs. Of two codecs for the same type the later one is used. */
export const codecsOf = (...codecs: ReadonlyArray<Codec>): Codecs => {
  const byType = new Map<string, Codec>()
  for (const codec of codecs) {
    byType.set(codec.contentType, codec)
    for (const alias of codec.aliases ?? []) byType.set(alias, codec)
  }
  return byType
}

/** A content type without its parameters, in lower case: `application/json; charset=utf-8` is `application/json`. */
export const mediaType = (contentType: string): string => {
  const end = contentType.indexOf(";")
  return (end === -1 ? contentType : contentType.slice(0, end)).trim().toLowerCase()
}

/**
 * A value that the format cannot express. Thrown inside a codec only.
 *
 * Inside, the codecs of this folder throw: a RangeError for a value that is nested too deep (also by a parser that is out
 * of stack), this error for a value that the format cannot express, any other error for malformed bytes. At their border
 * each becomes a {@link CodecFailure}.
 */
export class Unserialisable extends Error {
  /** Where the value is, such as `.items[3]`. */
  readonly path: string
  constructor(path: string, why: string) {
    super(`${path === "" ? "the value" : path} ${why}`)
    this.path = path
  }
}

/** `path`: where the value is, such as `.items[3]`. */
export const unserialisable = (path: string, why: string): Unserialisable =>
  new Unserialisable(beginning(path, 200), why)

export const tooDeep = (path = ""): RangeError =>
  new RangeError(
    `lists and maps are nested more than ${MAX_DEPTH} deep${path === "" ? "" : ` (${beginning(path, 200)}…)`}`,
  )

/**
 * The entries of an object that is no value of its own in any format: its own properties. An object that says something and
 * has no such property, or not what it says (an Error, a Promise, a RegExp …), is refused instead of becoming an empty map.
 */
export const ownEntries = (value: object, path: string): ReadonlyArray<[string, unknown]> => {
  if (value instanceof Error) throw unserialisable(path, "is an Error: send its name and message as text")
  const entries = Object.entries(value)
  if (isPlainObject(value) || (entries.length > 0 && !(value instanceof String))) return entries
  const { constructor } = value
  const name = typeof constructor === "function" ? constructor.name : ""
  // A plain object of another realm is plain, too.
  if (name === "Object") return entries
  throw unserialisable(path, `is a ${name || "class instance"}, which has no data of its own: send plain values`)
}

const messageOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause))

/** The failure for an error that was thrown while decoding. `format`: its name, for the message. */
export const readFailure = (cause: unknown, format: string): CodecFailure => ({
  _tag: "CodecFailure",
  reason: cause instanceof RangeError ? "too-deep" : "malformed",
  message: `not valid ${format}: ${messageOf(cause)}`,
})

/** The failure for an error that was thrown while encoding. */
export const writeFailure = (cause: unknown, format: string): CodecFailure => ({
  _tag: "CodecFailure",
  reason: cause instanceof RangeError ? "too-deep" : "unserialisable",
  message: `cannot be written as ${format}: ${messageOf(cause)}`,
})
