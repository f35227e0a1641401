/**
 * Codecs: how bytes of one content type become values and back. Applications register more of them (protobuf, Thrift).
 */
import type { Result } from "effect"

/** Why bytes are no value, or a value makes no bytes. */
export interface CodecFailure {
  readonly _tag: "CodecFailure"
  readonly reason: "malformed" | "too-deep" | "too-large" | "unserialisable"
  readonly message: string
}

/** One serialisation. Must not throw and must not keep what it is given; both functions are called for any number of messages. */
export interface Codec {
  /** Without parameters and in lower case, e.g. `application/json`. */
  readonly contentType: string
  /** Other names that are read as this type. */
  readonly aliases?: ReadonlyArray<string>
  /** What goes into `content_encoding`: `utf-8` for text, `binary` for bytes. */
  readonly contentEncoding: "utf-8" | "binary"
  /**
   * What a decoded value is: `task` for Celery's `[args, kwargs, embed]`, `argument` for a value that is the method's
   * one argument. Defaults to `argument`.
   */
  readonly holds?: "task" | "argument"
  readonly decode: (bytes: Uint8Array) => Result.Result<unknown, CodecFailure>
  readonly encode: (value: unknown) => Result.Result<Uint8Array, CodecFailure>
}

/** Codecs by content type and alias. */
export type Codecs = ReadonlyMap<string, Codec>

/** How many lists and maps may lie inside one another. Celery's own nested chains need three levels per step. */
export const MAX_DEPTH = 500

/** A registry of these codecs; of two for the same type the later one counts. */
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
