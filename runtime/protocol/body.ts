/**
 * The body of a task: its arguments, and the tasks that follow it. It is decoded only for the method that runs the task. A
 * body that cannot be decoded gives a failure with a reason and the bytes; nothing is thrown.
 */
import * as Result from "effect/Result"
import { parseSignature, parseSignatures, type Signature } from "./celery/signature.ts"
import { type Codec, type CodecFailure, type Codecs, codecsOf, mediaType } from "./codec/codec.ts"
import { compress, decompress } from "./codec/compression.ts"
import { jsonCodec, renderJson } from "./codec/json.ts"
import { msgpackCodec } from "./codec/msgpack.ts"
import { yamlCodec } from "./codec/yaml.ts"
import { isPlainObject } from "./guards.ts"
import type { Message } from "./message.ts"
import { beginning, encoder } from "./text.ts"

/** The tasks that follow a task. `null` and a missing key mean the same; an empty chain is the end of a chain. */
export interface Embed {
  /** Tasks that are submitted with the result after a success. */
  readonly callbacks: ReadonlyArray<Signature> | null
  /** Tasks that are submitted after a failure. */
  readonly errbacks: ReadonlyArray<Signature> | null
  /** The rest of a chain, in the order of the wire: the next task is the last of the list. */
  readonly chain: ReadonlyArray<Signature> | null
  /** The task that is submitted with all results once the whole group has ended. */
  readonly chord: Signature | null
}

/** Arguments of a task, and the tasks that follow it. */
export interface Body {
  readonly args: ReadonlyArray<unknown>
  readonly kwargs: Readonly<Record<string, unknown>>
  readonly embed: Embed
}

/** No task follows. */
export const NO_EMBED: Embed = Object.freeze({ callbacks: null, errbacks: null, chain: null, chord: null })

/**
 * Why a body cannot be handed to a method; `reason` is what a dead letter says.
 *
 * - `unsupported-content-type`: no codec is registered and the method does not accept the type as bytes
 * - `refused-content-type`: pickle, which can run any code when it is read
 * - `unsupported-compression`, `too-large`, `too-deep`, `malformed`
 */
export interface UndecodableBody {
  readonly _tag: "UndecodableBody"
  readonly reason:
    | "unsupported-content-type"
    | "refused-content-type"
    | "unsupported-compression"
    | "too-large"
    | "too-deep"
    | "malformed"
  readonly contentType: string
  readonly message: string
  /** Decompressed where that was possible, else as they came. */
  readonly bytes: Uint8Array
}

/** A body that cannot be written. */
export interface UnserialisableBody {
  readonly _tag: "UnserialisableBody"
  readonly reason: "unsupported-content-type" | "unsupported-compression" | CodecFailure["reason"]
  readonly message: string
}

/** JSON, msgpack and YAML. */
export const defaultCodecs: Codecs = codecsOf(jsonCodec, msgpackCodec, yamlCodec)

/**
 * Content types of plain bytes: kombu's `raw`, and what browsers and `curl` send. A missing content type means the
 * same.
 */
const RAW: ReadonlySet<string> = new Set(["application/data", "application/octet-stream", ""])

const PICKLE: ReadonlySet<string> = new Set(["application/x-python-serialize", "application/x-python-pickle"])

/** Default bound on a body, in bytes, before and after decompression. */
export const MAX_BODY_BYTES = 1024 * 1024

/** Options for decoding a body. */
export interface DecodeOptions {
  /** Defaults to JSON, msgpack and YAML. */
  readonly codecs?: Codecs
  /** In bytes, before and after decompression. Defaults to {@link MAX_BODY_BYTES}. */
  readonly maxBytes?: number
  /**
   * Content types that the method accepts as bytes where no codec is registered for them: `image/png`, `image/*`, or
   * `*` + `/*` for any. Pickle is refused in any case. Defaults to none.
   */
  readonly accepts?: ReadonlyArray<string>
}

/** Whether one of these content types, which may end in `/*`, matches this one. */
export const acceptsContentType = (accepts: ReadonlyArray<string>, contentType: string): boolean => {
  const type = mediaType(contentType)
  return accepts.some((pattern) => {
    const wanted = mediaType(pattern)
    return wanted === type || wanted === "*/*" || (wanted.endsWith("/*") && type.startsWith(wanted.slice(0, -1)))
  })
}

const isList = (value: unknown): value is ReadonlyArray<unknown> => Array.isArray(value)

const undecodable = (
  reason: UndecodableBody["reason"],
  contentType: string,
  message: string,
  bytes: Uint8Array,
): Result.Result<never, UndecodableBody> =>
  Result.fail({ _tag: "UndecodableBody", reason, contentType, message, bytes })

/** The decompressed bytes of a body, bounded before and after. Fails with {@link UndecodableBody}. */
export const bodyBytes = (
  message: Message,
  maxBytes: number = MAX_BODY_BYTES,
): Result.Result<Uint8Array, UndecodableBody> => {
  const { body } = message
  const contentType = message.properties.content_type
  if (body.length > maxBytes) {
    const why = `The body has ${body.length} bytes; at most ${maxBytes} are allowed. Store large data elsewhere and send its address.`
    return undecodable("too-large", contentType, why, body)
  }
  const { compression } = message.headers
  if (typeof compression !== "string" || compression === "") return Result.succeed(body)
  const inflated = decompress(body, compression, maxBytes)
  if (Result.isSuccess(inflated)) return Result.succeed(inflated.success)
  const { reason, message: why } = inflated.failure
  return undecodable(reason, contentType, why, body)
}

/**
 * A decoded body whose shape is not checked yet. `holds`: a whole task (`[args, kwargs, embed]`), or its single
 * argument.
 */
export interface DecodedValue {
  readonly holds: "task" | "argument"
  readonly value: unknown
}

/**
 * Decodes a body by its content type, whatever its shape: for protocol 1, events and control messages. Fails with
 * {@link UndecodableBody}.
 */
export const decodeValue = (
  message: Message,
  options: DecodeOptions = {},
): Result.Result<DecodedValue, UndecodableBody> => {
  const { codecs = defaultCodecs } = options
  // A message from another sender may lack the property, although the type requires it.
  const given = message.properties.content_type ?? ""
  const type = typeIn(codecs, given)
  if (PICKLE.has(type)) return undecodable("refused-content-type", given, NO_PICKLE, message.body)
  const bytes = bodyBytes(message, options.maxBytes)
  if (Result.isFailure(bytes)) return Result.fail(bytes.failure)
  const codec = codecs.get(type)
  if (codec === undefined) return argumentOf(bytes.success, given, type, options)
  const decoded = decodeWith(codec, bytes.success)
  if (Result.isSuccess(decoded)) return Result.succeed({ holds: codec.holds ?? "argument", value: decoded.success })
  const { reason, message: why } = decoded.failure
  return undecodable(reason === "unserialisable" ? "malformed" : reason, given, `The body is ${why}.`, bytes.success)
}

const NO_PICKLE =
  "Pickle can run arbitrary code when it is decoded, so it is refused. Set task_serializer = 'json' in the sender."

/** The key of a content type in a registry. The exact name is looked up first: nearly every body has one of three. */
const typeIn = (codecs: Codecs, given: string): string => (codecs.has(given) ? given : mediaType(given))

/** The bytes of a body without a codec, where the method takes them as they are. */
const argumentOf = (
  bytes: Uint8Array,
  given: string,
  type: string,
  { codecs = defaultCodecs, accepts = [] }: DecodeOptions,
): Result.Result<DecodedValue, UndecodableBody> => {
  if (RAW.has(type) || acceptsContentType(accepts, type)) return Result.succeed({ holds: "argument", value: bytes })
  const known = [...new Set(Array.from(codecs.values(), (each) => each.contentType))].join(", ")
  const why = `Content type "${beginning(given, 100)}" is unknown (${known}) and the method does not accept it as bytes.`
  return undecodable("unsupported-content-type", given, why, bytes)
}

/** Decodes with a codec that may throw although it must not: an application's codec must not end the worker. */
const decodeWith = (codec: Codec, bytes: Uint8Array): Result.Result<unknown, CodecFailure> => {
  try {
    return codec.decode(bytes)
  } catch (cause) {
    const message = `not ${codec.contentType}: ${String(cause)}`
    return Result.fail({ _tag: "CodecFailure", reason: "malformed", message })
  }
}

/**
 * Decodes the body of a task. A body of plain bytes, and one of a content type that the method accepts as bytes, is the
 * single argument. Fails with {@link UndecodableBody}; a body that is not `[args, kwargs, embed]` is `malformed` (a worker
 * of Celery 5.6 exits on a list of two items, and drops a task whose kwargs are a list).
 */
export const decodeBody = (message: Message, options?: DecodeOptions): Result.Result<Body, UndecodableBody> => {
  const decoded = decodeValue(message, options)
  if (Result.isFailure(decoded)) return Result.fail(decoded.failure)
  const { holds, value } = decoded.success
  if (holds === "argument") return Result.succeed({ args: [value], kwargs: {}, embed: NO_EMBED })
  const body = bodyOf(value)
  if (typeof body !== "string") return Result.succeed(body)
  const bytes = Result.getOrElse(bodyBytes(message, options?.maxBytes), () => message.body)
  return undecodable("malformed", message.properties.content_type, `The body ${body}.`, bytes)
}

/** The body in a decoded value, or the reason why the value is no body. */
export const bodyOf = (value: unknown): Body | string => {
  if (isPlainObject(value)) return "args" in value ? hybridBodyOf(value) : "is a map without args"
  if (!isList(value)) return "is not [args, kwargs, embed]"
  if (value.length !== 3) return `is a list of ${value.length}, not [args, kwargs, embed]`
  const embed: unknown = value[2]
  if (embed === null) return partsOf(value[0], value[1], NO_EMBED)
  return isPlainObject(embed) ? partsOf(value[0], value[1], embed) : "has an embed that is not a map"
}

/** A map with `args` under headers of protocol 2. Celery 5.6 ignores the chain in it, and so does this. */
const hybridBodyOf = (value: Readonly<Record<string, unknown>>): Body | string =>
  partsOf(value.args, value.kwargs ?? {}, { ...value, chain: null })

const partsOf = (
  args: unknown,
  kwargs: unknown,
  embed: Readonly<Partial<Record<keyof Embed, unknown>>>,
): Body | string => {
  if (!isList(args)) return "has args that are not a list"
  if (!isPlainObject(kwargs)) return "has kwargs that are not a map with text keys"
  const { callbacks = null, errbacks = null, chain = null, chord = null } = embed
  if (callbacks === null && errbacks === null && chain === null && chord === null) {
    return { args, kwargs, embed: NO_EMBED }
  }
  const parsed = embedOf(callbacks, errbacks, chain, chord)
  return Result.isFailure(parsed) ? `is invalid: ${parsed.failure}` : { args, kwargs, embed: parsed.success }
}

const embedOf = (
  callbacks: unknown,
  errbacks: unknown,
  chain: unknown,
  chord: unknown,
): Result.Result<Embed, string> => {
  const onSuccess = parseSignatures(callbacks, "callbacks")
  if (Result.isFailure(onSuccess)) return Result.fail(onSuccess.failure.message)
  const onFailure = parseSignatures(errbacks, "errbacks")
  if (Result.isFailure(onFailure)) return Result.fail(onFailure.failure.message)
  const rest = parseSignatures(chain, "chain")
  if (Result.isFailure(rest)) return Result.fail(rest.failure.message)
  if (chord === null) {
    return Result.succeed({
      callbacks: onSuccess.success,
      errbacks: onFailure.success,
      chain: rest.success,
      chord: null,
    })
  }
  const last = parseSignature(chord, "chord")
  if (Result.isFailure(last)) return Result.fail(last.failure.message)
  return Result.succeed({
    callbacks: onSuccess.success,
    errbacks: onFailure.success,
    chain: rest.success,
    chord: last.success,
  })
}

/** An encoded body: bytes, and the values for the headers and properties of its message. */
export interface EncodedBody {
  readonly bytes: Uint8Array
  readonly contentType: string
  readonly contentEncoding: "utf-8" | "binary"
  /** For the `compression` header. */
  readonly compression: string | null
}

/** Options for encoding a body. */
export interface EncodeOptions {
  /** Defaults to `application/json`. */
  readonly contentType?: string
  /** Content type of the compression, e.g. `application/x-gzip`. Defaults to none. */
  readonly compression?: string
  /** Defaults to JSON, msgpack and YAML. */
  readonly codecs?: Codecs
}

const unserialisable = (
  reason: UnserialisableBody["reason"],
  message: string,
): Result.Result<never, UnserialisableBody> => Result.fail({ _tag: "UnserialisableBody", reason, message })

/** The body in the form of the wire. */
const wireForm = (body: Body): ReadonlyArray<unknown> => [body.args, body.kwargs, body.embed]

const encodeJsonBody = (body: Body): Result.Result<Uint8Array, CodecFailure> => {
  const text = renderJson(wireForm(body))
  if (Result.isFailure(text)) return Result.fail(partFailure(body, text.failure))
  return Result.succeed(encoder.encode(text.success))
}

/** Of a body that cannot be written: which part of it, with the place in that part. */
const partFailure = ({ args, kwargs }: Body, whole: CodecFailure): CodecFailure => {
  for (const [name, part] of Object.entries({ args, kwargs })) {
    const text = renderJson(part)
    if (Result.isFailure(text)) return { ...text.failure, message: `has ${name} that ${text.failure.message}` }
  }
  return whole
}

const encodeWith = (codec: Codec, body: Body): Result.Result<Uint8Array, CodecFailure> => {
  if (codec === jsonCodec) return encodeJsonBody(body)
  try {
    if (codec.holds === "task") return codec.encode(wireForm(body))
    if (body.args.length === 1 && Object.keys(body.kwargs).length === 0) return codec.encode(body.args[0])
    const message = `${codec.contentType} holds exactly one argument`
    return Result.fail({ _tag: "CodecFailure", reason: "unserialisable", message })
  } catch (cause) {
    return Result.fail({ _tag: "CodecFailure", reason: "unserialisable", message: String(cause) })
  }
}

/**
 * Encodes a body. A content type of plain bytes takes exactly one argument, a `Uint8Array`. Fails with
 * {@link UnserialisableBody}, whose message names the value that cannot be encoded.
 */
export const encodeBody = (body: Body, options: EncodeOptions = {}): Result.Result<EncodedBody, UnserialisableBody> => {
  const { contentType = jsonCodec.contentType, codecs = defaultCodecs, compression } = options
  const type = typeIn(codecs, contentType)
  const codec = codecs.get(type)
  let bytes: Uint8Array
  if (codec !== undefined) {
    const encoded = encodeWith(codec, body)
    if (Result.isFailure(encoded)) return unserialisable(encoded.failure.reason, `The body ${encoded.failure.message}.`)
    bytes = encoded.success
  } else {
    const only: unknown = body.args[0]
    if (PICKLE.has(type) || !(only instanceof Uint8Array) || body.args.length !== 1) {
      return unserialisable("unsupported-content-type", `No codec is registered for "${beginning(contentType, 100)}".`)
    }
    bytes = only
  }
  if (compression !== undefined) {
    const compressed = compress(bytes, compression)
    if (Result.isFailure(compressed)) {
      return unserialisable("unsupported-compression", compressed.failure.message)
    }
    bytes = compressed.success
  }
  return Result.succeed({
    bytes,
    contentType: codec?.contentType ?? contentType,
    // kombu 5.6 keeps the serialiser's encoding where the body is compressed.
    contentEncoding: codec?.contentEncoding ?? "binary",
    compression: compression ?? null,
  })
}

/**
 * Any value as bytes of a content type: for protocol 1, events and control messages. Fails with
 * {@link UnserialisableBody}.
 */
export const encodeValue = (
  value: unknown,
  contentType: string = jsonCodec.contentType,
  codecs: Codecs = defaultCodecs,
): Result.Result<Uint8Array, UnserialisableBody> => {
  const codec = codecs.get(typeIn(codecs, contentType))
  if (codec === undefined) {
    return unserialisable("unsupported-content-type", `No codec is registered for "${beginning(contentType, 100)}".`)
  }
  try {
    const encoded = codec.encode(value)
    if (Result.isSuccess(encoded)) return Result.succeed(encoded.success)
    return unserialisable(encoded.failure.reason, `The value ${encoded.failure.message}.`)
  } catch (cause) {
    return unserialisable("unserialisable", `The codec of ${codec.contentType} failed: ${String(cause)}.`)
  }
}
