/**
 * Remote control of Celery (kombu's pidbox): a command to all workers, or to some by name, and what one of them answers.
 */
import * as Result from "effect/Result"
import { decodeValue, encodeValue, type UnserialisableBody } from "./body.ts"
import { matchesGlob } from "./celery/glob.ts"
import { jsonCodec } from "./codec/json.ts"
import { isDecodedMap } from "./guards.ts"
import type { Message } from "./message.ts"

/** Exchange to which commands are sent: every worker gets each of them. */
export const PIDBOX = "celery.pidbox"
/** Exchange of answers; the routing key names the client. */
export const REPLY_PIDBOX = "reply.celery.pidbox"

/** The queue in which a client waits for answers. */
export const replyQueue = (client: string): string => `${client}.${REPLY_PIDBOX}`

export interface ControlRequest {
  readonly method: string
  readonly arguments: Readonly<Record<string, unknown>>
  /** Names of the nodes that are asked. `null`: all, or those that match the pattern. */
  readonly destination: ReadonlyArray<string> | null
  readonly pattern: string | null
  /** How the pattern is meant: only `glob` is supported. */
  readonly matcher: string | null
  /** Where an answer goes, and what it has to name. `null`: none is wanted. */
  readonly reply: { readonly exchange: string; readonly routingKey: string; readonly ticket: string | null } | null
  /** The sender's Lamport clock. */
  readonly clock: number
}

/** A message that is no command. */
export interface InvalidControl {
  readonly _tag: "InvalidControl"
  readonly message: string
}

const invalid = (message: string): Result.Result<never, InvalidControl> =>
  Result.fail({ _tag: "InvalidControl", message })

const nonEmptyText = (value: unknown): string | null => (typeof value === "string" && value !== "" ? value : null)

const clockOf = ({ headers }: Message): number =>
  typeof headers.clock === "number" && Number.isSafeInteger(headers.clock) ? headers.clock : 0

/** Reads a command. Fails with {@link InvalidControl}. */
export const parseControl = (message: Message): Result.Result<ControlRequest, InvalidControl> => {
  const decoded = decodeValue(message)
  if (Result.isFailure(decoded)) return invalid(decoded.failure.message)
  const { value } = decoded.success
  if (!isDecodedMap(value) || typeof value.method !== "string") return invalid("A command must be a map with a method.")
  const { method, arguments: given, destination, pattern, matcher, reply_to: reply, ticket } = value
  const names: ReadonlyArray<unknown> | null = Array.isArray(destination)
    ? destination
    : typeof destination === "string"
      ? [destination]
      : null
  return Result.succeed({
    method,
    arguments: isDecodedMap(given) ? given : {},
    destination: names === null ? null : names.map(String),
    pattern: nonEmptyText(pattern),
    matcher: nonEmptyText(matcher),
    reply:
      isDecodedMap(reply) && typeof reply.exchange === "string" && typeof reply.routing_key === "string"
        ? { exchange: reply.exchange, routingKey: reply.routing_key, ticket: nonEmptyText(ticket) }
        : null,
    clock: clockOf(message),
  })
}

/** Longest pattern that is tried: a pattern of a stranger must not keep a worker busy. */
const MAX_PATTERN = 256

/**
 * Whether this node is to execute the command: it is named, or matches a glob, or nothing is said about nodes. `unsupported`:
 * the nodes are named by a pattern of another kind. A regular expression of a stranger is never tried, since an engine that
 * backtracks could take for ever.
 */
export const isAsked = (
  request: Pick<ControlRequest, "destination" | "pattern" | "matcher">,
  node: string,
): boolean | "unsupported" => {
  const { destination, pattern, matcher } = request
  // kombu takes an empty list for none.
  if (destination !== null && destination.length > 0) return destination.includes(node)
  if (pattern === null || matcher === null) return true
  if (matcher !== "glob") return "unsupported"
  return pattern.length <= MAX_PATTERN && matchesGlob(node, pattern)
}

/** A command as a client sends it. */
export const controlMessage = (request: ControlRequest): Result.Result<Message, UnserialisableBody> => {
  const { method, arguments: given, destination, pattern, matcher, reply, clock } = request
  return messageOf(
    {
      method,
      arguments: given,
      destination,
      pattern,
      matcher,
      ...(reply === null
        ? {}
        : { ticket: reply.ticket, reply_to: { exchange: reply.exchange, routing_key: reply.routingKey } }),
    },
    { clock, expires: 0 },
  )
}

/** What a node answers. */
export interface ControlReply {
  readonly node: string
  readonly value: unknown
}

/** An answer to a command. */
export const replyMessage = (
  { node, value }: ControlReply,
  ticket: string | null,
  clock: number,
): Result.Result<Message, UnserialisableBody> =>
  messageOf({ [node]: value }, { ...(ticket === null ? {} : { ticket }), clock })

/** The answers in a message: one as a rule. Fails with {@link InvalidControl}. */
export const parseReply = (
  message: Message,
): Result.Result<{ readonly replies: ReadonlyArray<ControlReply>; readonly ticket: string | null }, InvalidControl> => {
  const decoded = decodeValue(message)
  if (Result.isFailure(decoded)) return invalid(decoded.failure.message)
  const { value } = decoded.success
  if (!isDecodedMap(value)) return invalid("An answer must be a map of nodes.")
  const replies = Object.entries(value).map(([node, answer]) => ({ node, value: answer }))
  return Result.succeed({ replies, ticket: nonEmptyText(message.headers.ticket) })
}

const messageOf = (
  value: unknown,
  headers: Readonly<Record<string, unknown>>,
): Result.Result<Message, UnserialisableBody> =>
  Result.map(encodeValue(value), (body) => ({
    headers,
    properties: { content_type: jsonCodec.contentType, content_encoding: jsonCodec.contentEncoding, delivery_mode: 1 },
    body,
  }))
