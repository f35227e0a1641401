/** Reads the body of a request: bounded before anything is parsed, then decoded by its content type. */
import * as Result from "effect/Result"
import { CallboardError } from "../errors.ts"
import { discardRest } from "../platform/node.ts"
import { codecsOf, mediaType } from "../protocol/codec/codec.ts"
import { jsonCodec } from "../protocol/codec/json.ts"
import { msgpackCodec } from "../protocol/codec/msgpack.ts"
import { BODY_TYPES } from "../routes/submit.ts"
import { within } from "../transport/timers.ts"
import type { HeldBody } from "./limits.ts"

const CODECS = codecsOf(jsonCodec, msgpackCodec)

export interface BodyLimits {
  /** Largest body that is no array, in bytes. */
  readonly one: number
  /** Largest array, in bytes. */
  readonly many: number
}

export interface RequestBody {
  readonly value: unknown
  readonly bytes: Uint8Array
  /** Without parameters. */
  readonly contentType: string
}

const unsupported = (message: string, field: string): CallboardError =>
  new CallboardError("unsupported-content-type", message, { field })

/** The media type of a body that can be read. Fails with `unsupported-content-type`. */
const contentTypeOf = (headers: Headers): string => {
  const given = headers.get("content-type") ?? ""
  const type = mediaType(given)
  if (!CODECS.has(type)) {
    const shown = type === "" ? "is missing" : `${JSON.stringify(type.slice(0, 100))} is not supported`
    throw unsupported(`the content type ${shown}: send ${BODY_TYPES.join(" or ")}`, "Content-Type")
  }
  const charset = /;\s*charset="?([^";\s]+)/i.exec(given)?.[1]
  if (charset !== undefined && !/^utf-?8$/i.test(charset)) {
    throw unsupported(
      `the charset ${JSON.stringify(charset.slice(0, 40))} is not supported: send UTF-8`,
      "Content-Type",
    )
  }
  const encoding = headers.get("content-encoding") ?? "identity"
  if (encoding.toLowerCase() !== "identity") {
    throw unsupported("compressed requests are not supported: send the body uncompressed", "Content-Encoding")
  }
  return type
}

const tooLarge = (limit: number, isArray: boolean): CallboardError =>
  new CallboardError(
    "too-large",
    isArray
      ? `the array has more than ${limit} bytes: send it in parts`
      : `the body has more than ${limit} bytes: store large data elsewhere and send its address`,
  )

/** Whether a body begins an array, by its first byte; in JSON by the first one that is no white space. */
const beginsArray = (type: string, chunk: Uint8Array): boolean => {
  if (type !== jsonCodec.contentType) {
    const first = chunk[0] ?? 0
    return (first >= 0x90 && first <= 0x9f) || first === 0xdc || first === 0xdd
  }
  const first = chunk.find((byte) => byte !== 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0d)
  return first === 0x5b
}

/** All bytes of the body. Stops reading, and fails with `too-large`, as soon as there are more than allowed. */
const readBytes = async (request: Request, type: string, limits: BodyLimits, held: HeldBody): Promise<Uint8Array> => {
  const declared = Number(request.headers.get("content-length") ?? Number.NaN)
  const untilLate = () => held.deadline - performance.now()
  if (declared <= limits.one) {
    held.add(declared)
    const bytes = new Uint8Array(await within(untilLate(), request.arrayBuffer(), late))
    if (bytes.length <= limits.one) return bytes
    throw tooLarge(limits.one, false)
  }
  const chunks: Array<Uint8Array> = []
  let length = 0
  let isArray: boolean | undefined
  const reader = request.body?.getReader()
  try {
    if (declared > limits.many) throw tooLarge(limits.many, limits.many > limits.one)
    for (;;) {
      const next = reader && (await within(untilLate(), reader.read(), late))
      if (next?.value === undefined) return Buffer.concat(chunks)
      length += next.value.length
      held.add(next.value.length)
      chunks.push(next.value)
      if (next.value.length > 0) isArray ??= beginsArray(type, next.value)
      const limit = isArray ? limits.many : limits.one
      if (length > limit) throw tooLarge(limit, isArray ?? false)
    }
  } catch (thrown) {
    if (reader !== undefined) void discardRest(reader).catch(() => undefined)
    throw thrown
  }
}

const late = (): CallboardError =>
  new CallboardError("overloaded", "the body took too long to arrive: send it again over a faster connection", {
    outcome: "none",
  })

/** A body that ends too soon: the client has disconnected. */
const cutOff = (cause: unknown): never => {
  if (cause instanceof CallboardError) throw cause
  throw new CallboardError("invalid-input", "the request ended before its body was complete", { cause })
}

const EMPTY = new Uint8Array(0)

/**
 * Reads and decodes; the body counts as `held`. Fails with `overloaded`, `unsupported-content-type`, `too-large`, `invalid-json`, or `invalid-input` for msgpack
 * that cannot be read and for what lies too deep.
 */
export const readBody = async (request: Request, limits: BodyLimits, held: HeldBody): Promise<RequestBody> => {
  const contentType = contentTypeOf(request.headers)
  return decoded(contentType, await bytesOf(request, contentType, limits, held))
}

const bytesOf = async (request: Request, type: string, limits: BodyLimits, held: HeldBody): Promise<Uint8Array> =>
  request.body === null ? EMPTY : readBytes(request, type, limits, held).catch(cutOff)

const decoded = (contentType: string, bytes: Uint8Array): RequestBody => {
  const codec = CODECS.get(contentType) ?? jsonCodec
  const code = codec === jsonCodec ? "invalid-json" : "invalid-input"
  if (bytes.length === 0) throw new CallboardError(code, "the body is empty")
  const value = codec.decode(bytes)
  if (Result.isSuccess(value)) return { value: value.success, bytes, contentType }
  const { reason, message } = value.failure
  throw new CallboardError(reason === "too-deep" ? "invalid-input" : code, `the body is ${message}`)
}

/** The decoded body of a request, which is one value and no batch. Fails as {@link readBody} does. */
export const bodyOf = async ({ c, context: { maxBody }, held }: BodyRequest): Promise<unknown> =>
  (await readBody(c.req.raw, { one: maxBody, many: maxBody }, held)).value

/**
 * {@link bodyOf} for a route whose fields are all optional: an empty body has none of them. On Node a POST without a body has an
 * empty one.
 */
export const optionalBodyOf = async ({ c, context: { maxBody }, held }: BodyRequest): Promise<unknown> => {
  const request = c.req.raw
  const { body, headers } = request
  if (body === null) return {}
  if (!headers.has("content-type") && (await beginningOf(body, 0, held).catch(cutOff)) === "") return {}
  const contentType = contentTypeOf(headers)
  const bytes = await bytesOf(request, contentType, { one: maxBody, many: maxBody }, held)
  return bytes.length === 0 ? {} : decoded(contentType, bytes).value
}

/** The text of a body, cut once it has more than `max` bytes. */
const beginningOf = async (body: ReadableStream<Uint8Array>, max: number, held: HeldBody): Promise<string> => {
  const chunks: Array<Uint8Array> = []
  const reader = body.getReader()
  try {
    for (let length = 0; length <= max; ) {
      const { value } = await within(held.deadline - performance.now(), reader.read(), late)
      if (value === undefined) break
      length += value.length
      chunks.push(value)
    }
    return Buffer.concat(chunks).toString()
  } finally {
    void discardRest(reader).catch(() => undefined)
  }
}

/** Longest body that can be an empty object. */
const MAX_EMPTY = 64

/**
 * Refuses the body of a request to a route that takes none: its fields would be ignored. Fails with `unknown-field`, and with
 * `overloaded` for a body that takes too long to arrive. A body that is empty or `{}` is passed over.
 */
export const refuseBody = async ({ c, held }: Pick<BodyRequest, "c" | "held">, address: string): Promise<void> => {
  const { body } = c.req.raw
  if (body === null) return
  const text = await beginningOf(body, MAX_EMPTY, held).catch(cutOff)
  if (["", "{}"].includes(text.replaceAll(/\s/g, ""))) return
  throw new CallboardError("unknown-field", `${address} takes no body: its options are parameters of the query`)
}

/** The parts of a request that are needed to read its body. */
interface BodyRequest {
  readonly c: { readonly req: { readonly raw: Request } }
  readonly context: { readonly maxBody: number }
  readonly held: HeldBody
}
