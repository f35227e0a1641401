/**
 * kombu's envelope: the JSON text of a message in a list of Redis. Its body is base64, and its priority is inverted: tasks
 * with 0 are taken first.
 */
import { randomUUID } from "node:crypto"
import { parseExactJson } from "../../runtime/protocol/codec/exact-json.ts"
import { decodeBase64, encodeBase64 } from "../../runtime/protocol/exact.ts"
import { isMap } from "../../runtime/protocol/guards.ts"
import type { Message, Undecodable } from "../../runtime/protocol/message.ts"
import { encoder, strictDecoder } from "../../runtime/protocol/text.ts"

/** kombu separates with this the parts of a binding (routing key, pattern, queue), and a queue from its priority step. */
export const SEPARATOR = "\u0006\u0016"

/**
 * Property with the priority of a message where the envelope's number differs from it: for a task at the front, and for a
 * message without a priority, whose value is `null`.
 */
const OWN_PRIORITY = "callboard_priority"

/** Marks `delivery_info` that Callboard added, so that it is left out when the message is read. */
const ADDED = { callboard: true }

const HIGHEST = 9

/** The priority of a message that has this number in its envelope. kombu takes the nearest step for any number. */
export const priorityOfWire = (wire: number): number => HIGHEST - Math.min(Math.max(Math.trunc(wire), 0), HIGHEST)

/** An envelope, and the delivery tag in it. */
export interface Envelope {
  readonly tag: string
  readonly text: string
}

/**
 * The envelope of a message to an exchange. In the default exchange, whose name is empty, the routing key is the name of the
 * queue. The delivery tag comes first in the text, so that the scripts find it without parsing the rest.
 */
export const envelopeOf = (message: Message, exchange: string, routingKey: string, level?: number): Envelope => {
  const { content_type, content_encoding, priority, delivery_info, ...properties } = message.properties
  const tag = randomUUID()
  const wire = HIGHEST - Math.min(level ?? priority ?? HIGHEST, HIGHEST)
  const text = JSON.stringify({
    properties: {
      delivery_tag: tag,
      ...properties,
      priority: wire,
      ...(priority === HIGHEST - wire ? {} : { [OWN_PRIORITY]: priority ?? null }),
      delivery_info: { ...(isMap(delivery_info) ? delivery_info : ADDED), exchange, routing_key: routingKey },
      body_encoding: "base64",
    },
    body: encodeBase64(message.body),
    "content-encoding": content_encoding,
    "content-type": content_type,
    headers: message.headers,
  })
  return { tag, text }
}

/**
 * Reads an envelope that Celery or Callboard wrote. Bytes that are no envelope come back with the reason; never throws.
 */
export const readEnvelope = (bytes: Uint8Array): Message | Undecodable => {
  const undecodable = (why: string): Undecodable => ({
    undecodable: `not a kombu envelope: ${why}`,
    raw: new Uint8Array(bytes),
  })
  let envelope: unknown
  try {
    envelope = parse(strictDecoder.decode(bytes))
  } catch {
    return undecodable("it is not JSON")
  }
  if (!isMap(envelope)) return undecodable("it is not a JSON object")
  const { properties, body, "content-type": type } = envelope
  // kombu needs neither of them.
  const [headers, encoding] = [envelope["headers"] ?? {}, envelope["content-encoding"] ?? "utf-8"]
  if (!isMap(headers)) return undecodable("its headers are not a map")
  if (!isMap(properties)) return undecodable("its properties are not a map")
  if (typeof type !== "string" || typeof encoding !== "string") return undecodable("it has no content type")
  if (typeof body !== "string") return undecodable("its body is not text")
  const { delivery_tag: _tag, delivery_info, body_encoding, priority, correlation_id, reply_to, ...rest } = properties
  const { [OWN_PRIORITY]: own = typeof priority === "number" ? HIGHEST - priority : undefined, ...others } = rest
  try {
    return {
      headers,
      properties: {
        content_type: type,
        content_encoding: encoding,
        ...others,
        ...(typeof correlation_id === "string" ? { correlation_id } : {}),
        ...(typeof reply_to === "string" ? { reply_to } : {}),
        ...(isMap(delivery_info) && !delivery_info["callboard"] ? { delivery_info } : {}),
        ...(typeof own === "number" ? { priority: own } : {}),
      },
      body: body_encoding === "base64" ? decodeBase64(body) : encoder.encode(body),
    }
  } catch {
    return undecodable("its body is not base64")
  }
}

/** Parses JSON in which NaN and Infinity may occur, since Python writes them. */
const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return parseExactJson(text)
  }
}
