/**
 * Tasks that programs without Callboard publish: Celery's headers as headers of NATS, above a body of any content type. Each
 * becomes the message that a client would have published. One that is no task is refused with a reason (docs/wire-nats.md).
 */
import { mediaType } from "../../../runtime/protocol/codec/codec.ts"
import { isMap } from "../../../runtime/protocol/guards.ts"
import { HeaderProblem, time } from "../../../runtime/protocol/header-field.ts"
import { OWN_HEADER } from "../../../runtime/protocol/headers.ts"
import { FRONT_LEVEL, type Message, type Undecodable } from "../../../runtime/protocol/message.ts"
import { encoder } from "../../../runtime/protocol/text.ts"
import type { Index } from "../../../runtime/transport/known.ts"
import { copyOf } from "../connection/answers.ts"
import { readHeaders } from "../connection/header-block.ts"
import { escapeToken, publishedTo, type TaskAddress, unescapeToken } from "../streams/names.ts"
import { INDEX_HEADER, type StoredMessage } from "../streams/reader.ts"

/** Headers whose values are no texts; here they are JSON. */
const JSON_HEADERS: ReadonlySet<string> = new Set([
  ...["retries", "timelimit", "group_index", "ignore_result", "replaced_task_nesting", "stamped_headers", "stamps"],
  OWN_HEADER,
])

/**
 * Fields of the `callboard` header that workers and clients of Callboard's count, or write beside other entries: a task that comes
 * from elsewhere is the first of its job, and belongs to nothing.
 */
const WRITTEN_HERE = ["run", "hops", "forwards", "from", "fromStep", "attempted", "after", "member", "chord", "link"]

/** Headers that are properties of a task, in small letters: many clients write `Content-Type`. */
const PROPERTIES: ReadonlyMap<string, string> = new Map([
  ["content-type", "content_type"],
  ["content-encoding", "content_encoding"],
  ["correlation-id", "correlation_id"],
  ["reply-to", "reply_to"],
  ["priority", "priority"],
])

const ENCODINGS: ReadonlySet<string> = new Set(["utf-8", "utf8", "us-ascii", "ascii", "binary", "identity"])

/** What a retry may add to a task, in bytes. */
const ROOM = 1024

/** A message of the queue stream that is no frame. */
interface Published {
  readonly subject: string
  /** The band in its subject. */
  readonly band: number
  readonly block: Uint8Array
  readonly data: Uint8Array
}

/**
 * The content of a task that has no frame of Callboard's. A task that could have more than `maxTask` bytes at its retry is
 * refused, since the retry could not be stored.
 */
export const readNative = (
  { subject, band, block, data: view }: Published,
  maxTask: number,
): Uint8Array | Message | Undecodable => {
  const data = copyOf(view)
  const refused = (why: string): Undecodable => ({
    undecodable: `${publishedTo(subject)}: ${why}`,
    raw: joined(block, data),
  })
  const given = readHeaders(block)
  if (typeof given === "string") return refused(given)
  const [size, max] = [block.length + data.length, maxTask - ROOM]
  // A frame of another version, or one that was cut: its reader says what is wrong with it.
  if (given.has(INDEX_HEADER)) return data
  if (!given.has("task")) return refused('neither a frame of Callboard nor a task, which has the header "task"')
  if (size > max)
    return refused(`${size} bytes; at most ${max} are allowed. Store large data elsewhere and send its address`)
  const token = subject.slice(subject.lastIndexOf(".") + 1)
  const id = unescapeToken(token)
  if (escapeToken(id) !== token) return refused(`the id in its subject must be written as ${escapeToken(id)}`)
  const headers = new Map<string, unknown>([["id", id]])
  const properties = new Map<string, string>()
  for (const [name, values] of given) {
    const property = PROPERTIES.get(name.toLowerCase())
    // Headers with this prefix belong to the server and its clients, and are no part of the task.
    if (/^nats-/i.test(name) || (name === "id" && values.join() === "")) continue
    if (property !== undefined) properties.set(property, values.join(", "))
    else headers.set(name, values.length > 1 ? values : valueOf(name, values[0] ?? ""))
  }
  if (headers.get("id") !== id) return refused('its header "id" is not the id in its subject')
  const counted = historyIn(headers)
  if (counted !== undefined) return refused(`its header ${counted} is reserved for Callboard: leave it out`)
  const {
    content_type = "application/json",
    content_encoding = "",
    priority,
    ...others
  } = Object.fromEntries(properties)
  if (content_encoding !== "" && !ENCODINGS.has(content_encoding.toLowerCase()))
    return refused(
      `content-encoding ${JSON.stringify(content_encoding)} is not supported: use utf-8 or binary; a compression is named in the header "compression"`,
    )
  return {
    headers: Object.fromEntries(headers),
    properties: {
      correlation_id: id,
      ...others,
      content_type,
      content_encoding: content_encoding || "utf-8",
      delivery_mode: 2,
      priority: priority === undefined || priority === "" ? Math.min(band, FRONT_LEVEL - 1) : Number(priority),
    },
    body: headers.has("compression") ? data : bodyOf(mediaType(content_type), data),
  }
}

/** The name of a header that says that the task is not the first of its job; `1` as the number of the run says nothing. */
const historyIn = (headers: ReadonlyMap<string, unknown>): string | undefined => {
  for (const name of ["retries", "replaced_task_nesting"]) {
    const count = headers.get(name)
    if (Number.isSafeInteger(count) && Number(count) > 0) return name
  }
  const own = headers.get(OWN_HEADER)
  if (!isMap(own)) return undefined
  const field = WRITTEN_HERE.find((name) => !isUnsaid(name, own[name]))
  return field && `${OWN_HEADER}.${field}`
}

const isUnsaid = (name: string, value: unknown): boolean =>
  value === undefined ||
  value === null ||
  (name === "run" && value === 1) ||
  ((name === "hops" || name === "forwards") && value === 0)

/** A value that is no JSON stays as it is: as text it is refused by the name of its header. */
const valueOf = (name: string, text: string): unknown => {
  if (!JSON_HEADERS.has(name)) return text
  try {
    return text === "" ? null : JSON.parse(text)
  } catch {
    return text
  }
}

// ── bodies ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const JSON_BEFORE = encoder.encode("[[],")
const JSON_AFTER = encoder.encode(",null]")
const NO_INPUT = encoder.encode("[[],{},null]")
const MSGPACK_BEFORE = Uint8Array.of(0x93, 0x90)
const MSGPACK_AFTER = Uint8Array.of(0xc0)

const BLANKS: ReadonlySet<number> = new Set([0x20, 0x09, 0x0a, 0x0d])

const joined = (...parts: ReadonlyArray<Uint8Array>): Uint8Array => {
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of parts) {
    bytes.set(part, at)
    at += part.length
  }
  return bytes
}

/**
 * The body as `[args, kwargs, embed]`: a map is the input, and becomes `kwargs`; no bytes are no input. It is not decoded: the
 * method that runs the task does that.
 */
const bodyOf = (type: string, data: Uint8Array): Uint8Array => {
  if (type === "application/json") {
    const first = data.find((byte) => !BLANKS.has(byte))
    if (first === undefined) return NO_INPUT
    return first === 0x7b ? joined(JSON_BEFORE, data, JSON_AFTER) : data
  }
  if (type === "application/x-msgpack") {
    const [first = 0] = data
    const holdsMap = (first >= 0x80 && first <= 0x8f) || first === 0xde || first === 0xdf
    return holdsMap ? joined(MSGPACK_BEFORE, data, MSGPACK_AFTER) : data
  }
  return data
}

// ── what is known of a task that waits ───────────────────────────────────────────────────────────────────────────────

/** When it expires, in milliseconds since the epoch. */
export const nativeExpires = (message: StoredMessage): number | undefined => {
  const found = time({ expires: message.header("expires") }, "expires")
  return found === null || found instanceof HeaderProblem ? undefined : found
}

/** The index of a task that another program has published; `undefined` where it is no task. */
export const nativeIndex = (message: StoredMessage, address: TaskAddress | undefined): Index | undefined => {
  const task = message.header("task")
  if (task === "" || address === undefined) return undefined
  const names = { method: "meth", root: "root_id", parent: "parent_id", group: "group" }
  const texts = Object.entries(names).flatMap(([field, name]) => {
    const text = message.header(name)
    return text === "" ? [] : [[field, text]]
  })
  return { state: "queued", queue: address.queue, task, at: message.time, ...Object.fromEntries(texts) }
}
