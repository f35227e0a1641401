/** Encodes what the runtime stores through a driver: records, with a version, and tasks, as frames. */
import { decodeEnvelope, encodeEnvelope } from "../../protocol/envelope.ts"
import { isMap } from "../../protocol/guards.ts"
import { OWN_HEADER } from "../../protocol/headers.ts"
import type { Headers, JobPosting, Message, Undecodable } from "../../protocol/message.ts"
import { publishKey } from "../../protocol/message.ts"
import { type JobRecord, recordFromJson, recordToJson } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import { encoder, strictDecoder } from "../../protocol/text.ts"
import type { CommitRecord, Posting } from "../driver.ts"
import type { Index } from "../known.ts"
import { TransportError } from "../mod.ts"
import type { Revision } from "../store.ts"
import { TOMBSTONE_MS } from "./transport.ts"

/** Begins every stored record, so that an older Callboard refuses a newer form instead of misreading it. */
const RECORD_VERSION = 2
const RECORD_HEAD = `{"v":${RECORD_VERSION},`

/** Where the opening brace of a record comes to lie: the last byte of the head, a comma, takes its place. */
const BRACE_AT = RECORD_HEAD.length - 1
const COMMA = 44

/** Records up to this many characters are encoded in a shared buffer. A character has at most three bytes of UTF-8. */
const SCRATCH_CHARACTERS = 4096
const scratch = new Uint8Array(BRACE_AT + SCRATCH_CHARACTERS * 3)
const scratchBody = scratch.subarray(BRACE_AT)

encoder.encodeInto(RECORD_HEAD, scratch)

/** Fails with `invalid` where the record is not plain JSON. */
export const encodeStored = (record: JobRecord): Uint8Array => {
  let json: string
  try {
    json = recordToJson(record)
  } catch (cause) {
    throw new TransportError("invalid", `the record of ${record.id} is not plain JSON: ${String(cause)}`, { cause })
  }
  if (json.length > SCRATCH_CHARACTERS) return encoder.encode(RECORD_HEAD + json.slice(1))
  const { written } = encoder.encodeInto(json, scratchBody)
  scratch[BRACE_AT] = COMMA
  return scratch.slice(0, BRACE_AT + written)
}

/** Fails with `unsupported` for a record of another version, with `internal` for bytes that are not a record. */
export const decodeStored = (bytes: Uint8Array): JobRecord => {
  let text: string
  try {
    text = strictDecoder.decode(bytes)
  } catch (cause) {
    throw new TransportError("internal", "a stored record is not UTF-8: delete the job", { cause })
  }
  if (!text.startsWith(RECORD_HEAD)) {
    const version = /^\{"v":(\d+),/.exec(text)?.[1]
    if (version === undefined) {
      throw new TransportError("internal", "a stored record has no version: another program wrote it")
    }
    const message = `a stored record has version ${version}, but this Callboard reads version ${RECORD_VERSION}: install a version that reads it, or use another namespace`
    throw new TransportError("unsupported", message)
  }
  const record = recordFromJson(`{${text.slice(RECORD_HEAD.length)}`)
  if (record._tag === "Success") return record.success
  throw new TransportError("internal", `a stored record cannot be read: ${record.failure.message}`)
}

/** How many milliseconds a driver has to keep a record from now, its time as a tombstone included. Absent: for ever. */
export const keepOf = (record: JobRecord, now: number): number | undefined => {
  if (record.tombstone) return TOMBSTONE_MS
  const { state, endedAt, keepMs } = record
  if (!isTerminal(state) || endedAt === undefined || keepMs === undefined || keepMs < 0) return undefined
  return Math.max(0, endedAt + keepMs - now) + TOMBSTONE_MS
}

type MutableIndex = { -readonly [Field in keyof Index]: Index[Field] }

/** The index of a stored record. */
export const indexOf = (record: JobRecord): Index => {
  const index: MutableIndex = {
    state: record.state,
    queue: record.queue,
    task: record.task,
    at: record.submittedAt,
  }
  if (record.meth !== null) index.method = record.meth
  if (record.rootId !== undefined) index.root = record.rootId
  addRare(index, record)
  return index
}

/** In a function of its own, since an object gets room for every field that is set in the function that makes it. */
const addRare = (index: MutableIndex, record: JobRecord): void => {
  // A job that is not kept is gone as soon as it has ended.
  if (record.tombstone || (record.keepMs === 0 && isTerminal(record.state))) index.hidden = true
  if (record.dead !== undefined) index.dead = true
  if (record.parentId !== undefined) index.parent = record.parentId
  if (record.group !== undefined) index.group = record.group
  if (record.fingerprint !== undefined) index.error = record.fingerprint
}

/** Encodes a record for a commit. Fails with `invalid`. */
export const toCommitRecord = (record: JobRecord, expect: Revision, now: number): CommitRecord => {
  const keep = keepOf(record, now)
  const bytes = encodeStored(record)
  const index = indexOf(record)
  return keep === undefined ? { expect, bytes, index } : { expect, bytes, index, keep }
}

const text = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined)

const NOTHING: Headers = {}

/** Callboard's own header of a message; empty where it is missing or not a map. */
export const ownHeader = ({ headers }: Message): Headers => {
  const own = headers[OWN_HEADER]
  return isMap(own) ? own : NOTHING
}

/** The index of a task whose job has no record. Fields that are missing or of another type are left out. */
const indexOfPosting = ({ queue, due, message }: JobPosting, now: number): Index => {
  const { headers } = message
  const own = ownHeader(message)
  const index: MutableIndex = {
    state: due !== undefined && due > now ? "scheduled" : "queued",
    queue,
    task: text(headers["task"]) ?? "",
    at: typeof own["submittedAt"] === "number" ? own["submittedAt"] : now,
  }
  const method = text(headers["meth"])
  const root = text(headers["root_id"])
  if (method !== undefined) index.method = method
  if (root !== undefined) index.root = root
  addRareOfPosting(index, headers, own)
  return index
}

/** In a function of its own, as {@link addRare} is. */
const addRareOfPosting = (index: MutableIndex, headers: Headers, own: Headers): void => {
  const parent = text(headers["parent_id"])
  const group = text(headers["group"])
  const tenant = text(own["tenant"])
  if (parent !== undefined) index.parent = parent
  if (group !== undefined) index.group = group
  if (tenant !== undefined) index.tenant = tenant
}

/** Encodes a task for a driver, which refuses sizes and due times itself. Fails with `invalid`. */
export const toPosting = (posting: JobPosting, now: number): Posting => {
  const { id, queue, level, due, expires, message } = posting
  const frame = encodeEnvelope(message)
  if (frame._tag === "Failure") throw new TransportError("invalid", `${id}: ${frame.failure.message}`)
  const made: { -readonly [Field in keyof Posting]: Posting[Field] } = {
    id,
    key: publishKey(posting),
    queue,
    level,
    index: indexOfPosting(posting, now),
    frame: frame.success,
    message,
  }
  if (due !== undefined) made.due = due
  if (expires !== undefined) made.expires = expires
  return made
}

/** Decodes the content of a task. Bytes that are not a task come back as {@link Undecodable}. */
export const decodeContent = (content: Uint8Array | Message | Undecodable): Message | Undecodable =>
  content instanceof Uint8Array ? decodeEnvelope(content) : content
