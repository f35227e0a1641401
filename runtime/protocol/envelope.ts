/**
 * One message as bytes, for transports that store bytes: a version, two lengths, headers and properties as JSON, and the
 * body unchanged. Bytes that were cut or padded, or never were a message, are recognised, and nothing is thrown for them.
 *
 * ```
 * byte 0      1…4                 5…8               9…                               …
 * version 1   length of the head  length of the body  head: JSON [headers, properties]  body
 *             (both unsigned 32 bit, big endian)
 * ```
 *
 * In place of the usual properties (a body of JSON, persistent, the id as correlation id) the head has the priority alone.
 */
import * as Result from "effect/Result"
import { isMap } from "./guards.ts"
import type { Message, Properties, Undecodable } from "./message.ts"
import { encoder, exactDecoder } from "./text.ts"

/**
 * First byte of every frame that this version writes. No version is 0 or 123 (`{`), so that foreign data is recognised.
 */
const ENVELOPE_VERSION = 1

/** Bytes before the head. */
export const ENVELOPE_OVERHEAD = 9

/** Why a frame cannot be written. */
export interface InvalidEnvelope {
  readonly _tag: "InvalidEnvelope"
  readonly message: string
}

/** Frames that surely have no more bytes are put together in one reused buffer. */
const SCRATCH_BYTES = 16 * 1024
const scratch = new Uint8Array(SCRATCH_BYTES)
const scratchHead = scratch.subarray(ENVELOPE_OVERHEAD)

const putLength = (frame: Uint8Array, at: number, length: number): void => {
  frame[at] = length >>> 24
  frame[at + 1] = length >>> 16
  frame[at + 2] = length >>> 8
  frame[at + 3] = length
}

const lengthAt = (frame: Uint8Array, at: number): number =>
  (frame[at] ?? 0) * 0x100_0000 + (((frame[at + 1] ?? 0) << 16) | ((frame[at + 2] ?? 0) << 8) | (frame[at + 3] ?? 0))

/** Begins the frame of a head and a body, with the body in its place. */
const beginFrame = (frame: Uint8Array, headLength: number, body: Uint8Array): void => {
  frame[0] = ENVELOPE_VERSION
  putLength(frame, 1, headLength)
  putLength(frame, 5, body.length)
  frame.set(body, ENVELOPE_OVERHEAD + headLength)
}

const framed = (head: string, body: Uint8Array): Uint8Array => {
  // A character takes at most three bytes.
  if (ENVELOPE_OVERHEAD + head.length * 3 + body.length <= SCRATCH_BYTES) {
    const { written } = encoder.encodeInto(head, scratchHead)
    beginFrame(scratch, written, body)
    return scratch.slice(0, ENVELOPE_OVERHEAD + written + body.length)
  }
  const bytes = encoder.encode(head)
  const frame = new Uint8Array(ENVELOPE_OVERHEAD + bytes.length + body.length)
  beginFrame(frame, bytes.length, body)
  frame.set(bytes, ENVELOPE_OVERHEAD)
  return frame
}

/** The priority of a message with the usual properties, from which they are made again; `undefined` for other properties. */
const usualPriority = ({ headers, properties }: Message): number | undefined => {
  const { content_type, content_encoding, correlation_id, delivery_mode, priority } = properties
  const isUsual =
    content_type === "application/json" &&
    content_encoding === "utf-8" &&
    delivery_mode === 2 &&
    typeof correlation_id === "string" &&
    correlation_id === headers["id"]
  if (!isUsual || !Number.isInteger(priority)) return undefined
  let fields = 0
  for (const _ in properties) fields++
  return fields === 5 ? priority : undefined
}

const usualProperties = (id: string, priority: number): Properties => ({
  content_type: "application/json",
  content_encoding: "utf-8",
  correlation_id: id,
  delivery_mode: 2,
  priority,
})

/**
 * Encodes a message. Headers and properties must be plain JSON values; fails with {@link InvalidEnvelope} where they are
 * not (a cycle, a BigInt).
 */
export const encodeEnvelope = (message: Message): Result.Result<Uint8Array, InvalidEnvelope> => {
  let head: string
  try {
    head = JSON.stringify([message.headers, usualPriority(message) ?? message.properties])
  } catch (cause) {
    return Result.fail({
      _tag: "InvalidEnvelope",
      message: `Headers and properties must be plain JSON values: ${String(cause)}`,
    })
  }
  return Result.succeed(framed(head, message.body))
}

/** Whether bytes look like a frame of this version, by its first bytes alone. {@link decodeEnvelope} may still refuse them. */
export const isFrame = (bytes: Uint8Array): boolean =>
  bytes[0] === ENVELOPE_VERSION &&
  bytes.length >= ENVELOPE_OVERHEAD &&
  bytes.length === ENVELOPE_OVERHEAD + lengthAt(bytes, 1) + lengthAt(bytes, 5)

/** Longest part of a frame that is copied, in bytes. The first view of an array costs as much as copying so much of it. */
const COPIED_BYTES = 4096

const partOf = (frame: Uint8Array, from: number, to: number): Uint8Array =>
  to - from <= COPIED_BYTES ? frame.slice(from, to) : frame.subarray(from, to)

const undecodable = (why: string, raw: Uint8Array): Undecodable => ({ undecodable: why, raw })

const isProperties = (value: unknown): value is Properties =>
  isMap(value) && typeof value.content_type === "string" && typeof value.content_encoding === "string"

/**
 * Decodes a frame. Bytes that are no message come back with the reason; never throws. The body of the message is a copy, or
 * a view of the frame where it is large.
 */
export const decodeEnvelope = (frame: Uint8Array): Message | Undecodable => {
  if (frame.length < ENVELOPE_OVERHEAD) return undecodable(`${frame.length} bytes are too few for a message`, frame)
  if (frame[0] !== ENVELOPE_VERSION) return undecodable(`not a message of version ${ENVELOPE_VERSION}`, frame)
  const headLength = lengthAt(frame, 1)
  const bodyLength = lengthAt(frame, 5)
  const expected = ENVELOPE_OVERHEAD + headLength + bodyLength
  if (frame.length !== expected) {
    return undecodable(
      `${frame.length < expected ? "truncated" : "too long"}: ${frame.length} bytes instead of the announced ${expected}`,
      frame,
    )
  }
  const bodyAt = ENVELOPE_OVERHEAD + headLength
  let head: unknown
  try {
    head = JSON.parse(exactDecoder.decode(partOf(frame, ENVELOPE_OVERHEAD, bodyAt)))
  } catch (cause) {
    const why = cause instanceof SyntaxError ? "headers are not JSON" : "headers are not UTF-8"
    return undecodable(why, frame)
  }
  if (!Array.isArray(head) || head.length !== 2) return undecodable("no headers and properties", frame)
  const headers: unknown = head[0]
  if (!isMap(headers)) return undecodable("headers are not a map", frame)
  const { id } = headers
  const properties: unknown =
    typeof head[1] === "number" && typeof id === "string" ? usualProperties(id, head[1]) : head[1]
  if (!isProperties(properties)) return undecodable("properties lack content_type or content_encoding", frame)
  return { headers, properties, body: partOf(frame, bodyAt, frame.length) }
}
