/**
 * How the codecs of this folder fail inside, and how that becomes a value at their border: a RangeError for what lies
 * too deep (also a parser at the end of its stack), {@link Unserialisable} for what has no form, anything else for bytes
 * that are wrong.
 */
import { type CodecFailure, MAX_DEPTH } from "./codec.ts"

/** A value that has no form in the serialisation. Thrown inside a codec only. */
export class Unserialisable extends Error {}

/** `path` is where the value lies, e.g. `.items[3]`. */
export const unserialisable = (path: string, why: string): Unserialisable =>
  new Unserialisable(`${path === "" ? "the value" : path.slice(0, 200)} ${why}`)

export const tooDeep = (): RangeError => new RangeError(`lists and maps lie more than ${MAX_DEPTH} deep in one another`)

const messageOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause))

/** What was thrown while bytes were read, as a value. `format` is the name for people. */
export const readFailure = (cause: unknown, format: string): CodecFailure => ({
  _tag: "CodecFailure",
  reason: cause instanceof RangeError ? "too-deep" : "malformed",
  message: `not ${format} that can be read: ${messageOf(cause)}`,
})

/** What was thrown while a value was written, as a value. */
export const writeFailure = (cause: unknown, format: string): CodecFailure => ({
  _tag: "CodecFailure",
  reason: cause instanceof RangeError ? "too-deep" : "unserialisable",
  message: `cannot be written as ${format}: ${messageOf(cause)}`,
})
