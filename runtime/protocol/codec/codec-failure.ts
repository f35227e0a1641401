/**
 * Errors of the codecs in this folder. Inside they throw: a RangeError for a value that is nested too deep (also by a parser
 * that is out of stack), {@link Unserialisable} for a value that the format cannot express, any other error for malformed
 * bytes. At their border each becomes a {@link CodecFailure}.
 */
import { type CodecFailure, MAX_DEPTH } from "./codec.ts"

/** A value that the format cannot express. Thrown inside a codec only. */
export class Unserialisable extends Error {}

/** `path`: where the value is, such as `.items[3]`. */
export const unserialisable = (path: string, why: string): Unserialisable =>
  new Unserialisable(`${path === "" ? "the value" : path.slice(0, 200)} ${why}`)

export const tooDeep = (): RangeError => new RangeError(`lists and maps lie more than ${MAX_DEPTH} deep in one another`)

const messageOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause))

/** The failure for an error that was thrown while decoding. `format`: its name, for the message. */
export const readFailure = (cause: unknown, format: string): CodecFailure => ({
  _tag: "CodecFailure",
  reason: cause instanceof RangeError ? "too-deep" : "malformed",
  message: `not ${format} that can be read: ${messageOf(cause)}`,
})

/** The failure for an error that was thrown while encoding. */
export const writeFailure = (cause: unknown, format: string): CodecFailure => ({
  _tag: "CodecFailure",
  reason: cause instanceof RangeError ? "too-deep" : "unserialisable",
  message: `cannot be written as ${format}: ${messageOf(cause)}`,
})
