/**
 * Converts messages of Celery's protocol 1 to protocol 2. Protocol 1 has everything in the body and nothing in the headers. A
 * transport that gets messages from Celery converts them on arrival, so that all other code knows protocol 2 only.
 */
import * as Result from "effect/Result"
import { bodyOf, type DecodeOptions, decodeValue, encodeBody, type UndecodableBody } from "./body.ts"
import { isMap } from "./guards.ts"
import { isReservedHeader } from "./headers.ts"
import type { Headers, Message } from "./message.ts"
import { formatTime, parseTimeParts } from "./time.ts"

/** A message that is no task of either protocol. Celery 5.6 logs it and rejects it without putting it back. */
export interface UnknownMessage {
  readonly _tag: "UnknownMessage"
  readonly message: string
}

type ReadOptions = Pick<DecodeOptions, "codecs" | "maxBytes">

type Fields = Readonly<Record<string, unknown>>

const hasTaskHeader = (message: Message): boolean => message.headers.task !== undefined && message.headers.task !== null

const isBlank = (byte: number | undefined): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09

/** Whether the body may be a map, by its first byte: `{` after blanks in JSON, the map types of msgpack. */
const mayBeMap = (message: Message): boolean => {
  // The first byte of a compressed body says nothing about its content.
  if (typeof message.headers.compression === "string" && message.headers.compression !== "") return true
  let at = 0
  while (isBlank(message.body[at])) at++
  const first = message.body[at]
  if (first === undefined) return false
  switch (message.properties.content_type) {
    case "application/json":
      return first === 0x7b
    case "application/x-msgpack":
      return (first >= 0x80 && first <= 0x8f) || first === 0xde || first === 0xdf
    default:
      return first !== 0x5b && first !== 0x2d
  }
}

/**
 * The message in protocol 2. One that is in protocol 2 already comes back as it is, without its body being decoded
 * (unless the body's first byte shows a map: the hybrid form of Celery 4, whose body fields are overridden by headers,
 * with callbacks, errbacks and chord from the body and without a chain). Of a message of protocol 1 `taskset` wins over
 * `group`; times without a zone are UTC, also where it says `utc: false` (Celery 5.6).
 *
 * Fails with {@link UnknownMessage} when it is no task, with UndecodableBody when that cannot be seen.
 */
export const toProtocol2 = (
  message: Message,
  options: ReadOptions = {},
): Result.Result<Message, UnknownMessage | UndecodableBody> => {
  const named = hasTaskHeader(message)
  if (named && !mayBeMap(message)) return Result.succeed(message)
  const decoded = decodeValue(message, options)
  if (Result.isFailure(decoded)) {
    // A message with a task header can be listed, expired and dead-lettered without its body.
    return named ? Result.succeed(message) : Result.fail(decoded.failure)
  }
  const { value } = decoded.success
  if (named && !(isMap(value) && "args" in value)) return Result.succeed(message)
  if (!isMap(value) || (!named && typeof value.task !== "string")) return unknownMessage()
  return converted(message, value, options)
}

const unknownMessage = (): Result.Result<never, UnknownMessage> =>
  Result.fail({
    _tag: "UnknownMessage",
    message: "There is no task header, and the body is not a map with a task: this is not a Celery task.",
  })

const converted = (
  message: Message,
  fields: Fields,
  options: ReadOptions,
): Result.Result<Message, UnknownMessage | UndecodableBody> => {
  const body = bodyOf({ ...fields, args: fields.args ?? [], kwargs: fields.kwargs ?? {} })
  const malformed = (why: string): Result.Result<never, UndecodableBody> =>
    Result.fail({
      _tag: "UndecodableBody",
      reason: "malformed",
      contentType: message.properties.content_type,
      message: why,
      bytes: message.body,
    })
  if (typeof body === "string") return malformed(`The body ${body}.`)
  const encoded = encodeBody(body, {
    contentType: message.properties.content_type,
    ...(options.codecs ? { codecs: options.codecs } : {}),
  })
  if (Result.isFailure(encoded)) return malformed(encoded.failure.message)
  const { compression: _, ...headers } = message.headers
  return Result.succeed({
    headers: { ...headersOf(fields), ...withoutSilentHeaders(headers) },
    properties: { ...message.properties, content_encoding: encoded.success.contentEncoding },
    body: encoded.success.bytes,
  })
}

/** The headers without those that are `null`: in the protocol that means absent, so they must not override the body. */
const withoutSilentHeaders = (headers: Headers): Headers => {
  const said: Record<string, unknown> = {}
  for (const name of Object.keys(headers)) {
    const value = headers[name]
    const silent = value === undefined || (value === null && isReservedHeader(name))
    if (!silent && name !== "__proto__") said[name] = value
  }
  return said
}

/** Values of a wrong type are copied as they are: `parseTask` refuses them by name. */
const headersOf = (fields: Fields): Headers => ({
  lang: fields.lang ?? null,
  task: fields.task ?? null,
  meth: fields.meth ?? null,
  id: fields.id,
  shadow: fields.shadow ?? null,
  group: fields.taskset ?? fields.group ?? null,
  group_index: fields.group_index ?? null,
  retries: fields.retries ?? 0,
  eta: zonedTime(fields.eta),
  expires: zonedTime(fields.expires),
  timelimit: fields.timelimit ?? [null, null],
  root_id: fields.root_id ?? null,
  parent_id: fields.parent_id ?? null,
  argsrepr: fields.argsrepr ?? null,
  kwargsrepr: fields.kwargsrepr ?? null,
  origin: fields.origin ?? null,
})

const zonedTime = (value: unknown): unknown => {
  if (typeof value !== "string" || value === "") return value ?? null
  const parsed = parseTimeParts(value)
  if (Result.isFailure(parsed) || parsed.success.zoned) return value
  return formatTime(parsed.success.ms, parsed.success.micros)
}
