/** A task as an AMQP message in the form that Celery writes and reads: headers, properties and body. */
import type { Message as AmqpMessage, Options } from "amqplib"
import { isMap } from "../../runtime/protocol/guards.ts"
import type { Message } from "../../runtime/protocol/message.ts"
import { decoder } from "../../runtime/protocol/text.ts"

/** Form of the ids of messages that Callboard published, with the sequence of the task. */
const OWN = /^callboard:(\d{1,16})$/

/** Name of the header with properties of a task for which AMQP has no field. */
const OTHERS = "x-callboard-properties"

/** Name of the header in which a quorum queue counts earlier deliveries of a message. */
const COUNT = "x-delivery-count"

/** Headers in which the server notes that a message was dead-lettered. Celery does not send them again either. */
const DEATH = /^x-(death$|(first|last)-death-)/

const PERSISTENT = 2

const INT_32 = 2 ** 31

/**
 * Gives each number in a header its type. The library would write small integers as 16 bits, under a letter that
 * Celery's library reads as text, and refuses NaN. In its notation an object with the key `!` names a type.
 */
const typed = (value: unknown): unknown => {
  if (typeof value === "number") {
    return { "!": !Number.isSafeInteger(value) ? "double" : value >= -INT_32 && value < INT_32 ? "int" : "long", value }
  }
  if (Array.isArray(value)) return value.map(typed)
  if (!isMap(value)) return value
  return Object.hasOwn(value, "!") ? { "!": "object", value: typedTable(value) } : typedTable(value)
}

const typedTable = (table: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries(table).map(([key, each]) => [key, typed(each)]))

/**
 * The reverse of `typed`. Of the types that other systems write, times become seconds, decimals numbers, and bytes
 * text.
 */
const plain = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(plain)
  if (value instanceof Uint8Array) return decoder.decode(value)
  if (!isMap(value)) return value
  const { "!": type, value: held, ...others } = value
  if (type === "timestamp" && Object.keys(others).length === 0) return held
  if (type === "decimal" && isMap(held)) return Number(held["digits"]) / 10 ** Number(held["places"])
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, plain(each)]))
}

/** A message as the library sends it. */
export interface Outgoing {
  readonly content: Buffer
  readonly options: Options.Publish
}

/**
 * `expires` is not sent as the message's time to live: the server would drop an expired task, while Callboard records
 * it.
 */
export const toAmqp = ({ headers, properties, body }: Message): Outgoing => {
  const { content_type, content_encoding, correlation_id, reply_to, priority, delivery_mode, ...others } = properties
  const extra = Object.keys(others).length === 0 ? {} : { [OTHERS]: others }
  const sent = Object.entries(headers).filter(([name]) => !DEATH.test(name))
  return {
    content: Buffer.from(body),
    options: {
      headers: typedTable({ ...Object.fromEntries(sent), ...extra }),
      contentType: content_type,
      contentEncoding: content_encoding,
      ...(correlation_id === undefined ? {} : { correlationId: correlation_id }),
      ...(reply_to === undefined ? {} : { replyTo: reply_to }),
      ...(priority === undefined ? {} : { priority }),
      deliveryMode: delivery_mode ?? PERSISTENT,
    },
  }
}

/** A task is stored by the server, and returned if its queue does not exist. */
export const taskMessage = (message: Message, messageId: string, priority?: number): Outgoing => {
  const { content, options } = toAmqp(message)
  return {
    content,
    options: {
      ...options,
      ...(priority === undefined ? {} : { priority }),
      deliveryMode: PERSISTENT,
      messageId,
      mandatory: true,
    },
  }
}

export interface FromAmqp {
  readonly message: Message
  /** Number by which tasks of equal priority are ordered; 0 for a message that another program published. */
  readonly sequence: number
  readonly deliveries: number
  readonly priority: number
}

const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined)

export const fromAmqp = ({
  content,
  fields,
  properties,
}: Pick<AmqpMessage, "content" | "fields" | "properties">): FromAmqp => {
  const { [COUNT]: count, [OTHERS]: others, ...headers } = properties.headers ?? {}
  const sequence = Number(OWN.exec(text(properties.messageId) ?? "")?.[1] ?? 0)
  const [correlation, reply] = [text(properties.correlationId), text(properties.replyTo)]
  const priority = typeof properties.priority === "number" ? properties.priority : 0
  const extra = plain(others)
  return {
    message: {
      headers: Object.fromEntries(Object.entries(headers).map(([key, value]) => [key, plain(value)])),
      properties: {
        ...(isMap(extra) ? extra : {}),
        content_type: text(properties.contentType) ?? "",
        content_encoding: text(properties.contentEncoding) ?? "",
        ...(correlation === undefined ? {} : { correlation_id: correlation }),
        ...(reply === undefined ? {} : { reply_to: reply }),
        delivery_mode: PERSISTENT,
        // Without a priority of its own, a task of Celery keeps this one when it is tried again.
        ...(properties.priority === undefined && sequence > 0 ? {} : { priority: Math.min(priority, 9) }),
      },
      body: new Uint8Array(content),
    },
    sequence,
    deliveries: 1 + (typeof count === "number" ? count : fields.redelivered ? 1 : 0),
    priority,
  }
}
