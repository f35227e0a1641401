/** Turns postings and records into what is written into rows, before the lock is taken. What cannot be stored fails here. */
import { Buffer } from "node:buffer"
import { encodeEnvelope } from "../../../runtime/protocol/envelope.ts"
import { OWN_HEADER } from "../../../runtime/protocol/headers.ts"
import type { Message, Posting } from "../../../runtime/protocol/message.ts"
import { recordToJson } from "../../../runtime/protocol/record.ts"
import { isTerminal, STATES, type State } from "../../../runtime/protocol/state.ts"
import { type JobRecord, TOMBSTONE_MS, TransportError } from "../../../runtime/transport/mod.ts"
import { type IdColumn, idToColumn } from "./id.ts"
import { isLevel, nthOf } from "./number.ts"

/** Largest envelope: the product allows bodies of 1 MiB; this leaves room for headers and for other senders. */
export const MAX_TASK = 4 * 1024 * 1024

/** Largest record with the task it keeps: room for a task in base64, its follow-ups and a traceback. */
export const MAX_RECORD = 32 * 1024 * 1024

const MAX_NAME_BYTES = 255

// ── states ───────────────────────────────────────────────────────────────────────────────────────────────────────────

// Stored in files: the order must never change. The partial index over states names `succeeded` as 4.
const CODES: ReadonlyMap<State, number> = new Map(STATES.map((state, code) => [state, code]))

export const codeOf = (state: State): number => CODES.get(state) ?? -1

// ── postings ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** How one job refers to another. */
export type LinkKind = 1 | 2 | 3
export const ROOT: LinkKind = 1
export const PARENT: LinkKind = 2
export const GROUP: LinkKind = 3

export interface Link {
  readonly kind: LinkKind
  readonly ref: IdColumn
}

export interface PostingColumns {
  readonly posting: Posting
  readonly id: IdColumn
  readonly nth: number
  readonly task: string
  readonly due: number | null
  readonly expires: number | null
  /** When the task was stored, unless its headers say when it was submitted. */
  readonly posted: number | null
  readonly frame: Uint8Array
  readonly links: ReadonlyArray<Link>
}

const invalid = (message: string): TransportError => new TransportError("invalid", message)

/** Fails with `unsupported`, `invalid` or `too-large`. */
export const postingColumns = (posting: Posting, now: number): PostingColumns => {
  const { id, level, key, queue, message } = posting
  if (key !== undefined) throw new TransportError("unsupported", `${id}: sqlite keeps no order by key`)
  if (!isLevel(level)) throw invalid(`${id}: ${level} is no level: 0 to 10`)
  checkName("an id", id)
  checkQueue(queue)
  const nth = nthOf(posting)
  if (nth === undefined) throw invalid(`${id}: run, retries or hops are out of range`)
  const encoded = encodeEnvelope(message)
  if (encoded._tag === "Failure") throw invalid(`${id}: ${encoded.failure.message}`)
  const frame = encoded.success
  if (frame.length > MAX_TASK) {
    throw new TransportError("too-large", `${id}: ${frame.length} bytes, ${MAX_TASK} are allowed`)
  }
  const { task, root_id, parent_id, group } = message.headers
  return {
    posting,
    id: idToColumn(id),
    nth,
    task: typeof task === "string" ? task : "",
    due: timeOf(posting.due, "due", id),
    expires: timeOf(posting.expires, "expires", id),
    posted: saysWhen(message) ? null : now,
    frame,
    links: linksOf(id, root_id, parent_id, group),
  }
}

const saysWhen = ({ headers }: Message): boolean => {
  const own = headers[OWN_HEADER]
  return typeof own === "object" && own !== null && "submittedAt" in own && typeof own.submittedAt === "number"
}

const NO_LINKS: ReadonlyArray<Link> = []

const linksOf = (id: string, root: unknown, parent: unknown, group: unknown): ReadonlyArray<Link> => {
  // Most jobs are their own root and belong to nothing.
  if ((root === id || !root) && !parent && !group) return NO_LINKS
  const links: Array<Link> = []
  if (typeof root === "string" && root !== "" && root !== id) links.push({ kind: ROOT, ref: idToColumn(root) })
  if (typeof parent === "string" && parent !== "") links.push({ kind: PARENT, ref: idToColumn(parent) })
  if (typeof group === "string" && group !== "") links.push({ kind: GROUP, ref: idToColumn(group) })
  return links
}

/** Whole milliseconds, never early. */
const timeOf = (time: number | undefined, field: string, id: string): number | null => {
  if (time === undefined) return null
  const whole = Math.ceil(time)
  if (Number.isSafeInteger(whole) && whole >= 0) return whole
  throw invalid(`${id}: ${field} must be milliseconds since the epoch, not ${time}`)
}

export const checkQueue = (queue: string): void => {
  checkName("the name of a queue", queue)
  if (queue.includes("\0")) throw invalid("the name of a queue holds a zero byte")
}

const checkName = (what: string, name: string): void => {
  // Three bytes of UTF-8 per character at most: most names need no counting.
  const short = name.length > 0 && (name.length * 3 <= MAX_NAME_BYTES || Buffer.byteLength(name) <= MAX_NAME_BYTES)
  if (short && name.isWellFormed()) return
  throw invalid(`${what} is 1 to ${MAX_NAME_BYTES} bytes of well-formed text, not ${JSON.stringify(name.slice(0, 80))}`)
}

// ── records ──────────────────────────────────────────────────────────────────────────────────────────────────────────

export interface RecordColumns {
  readonly record: JobRecord
  readonly id: IdColumn
  /** Without the task, which is kept as envelope. */
  readonly json: string
  readonly state: number
  /** When it becomes a tombstone, or the tombstone goes. */
  readonly over: number | null
  readonly grave: 0 | 1
  readonly frame: Uint8Array | null
}

/** Fails with `invalid` when the record is not plain JSON, `too-large` when it is over {@link MAX_RECORD}. */
export const recordColumns = (record: JobRecord, now: number): RecordColumns => {
  checkName("an id", record.id)
  checkQueue(record.queue)
  const state = codeOf(record.state)
  if (state < 0) throw invalid(`${record.id}: ${String(record.state)} is no state`)
  const { json, frame } = encode(record)
  return {
    record,
    id: idToColumn(record.id),
    json,
    state,
    over: overOf(record, now),
    grave: record.tombstone ? 1 : 0,
    frame,
  }
}

export const recordLinks = ({ id, rootId, parentId, group }: JobRecord): ReadonlyArray<Link> =>
  linksOf(id, rootId, parentId, group)

const encode = (record: JobRecord): { readonly json: string; readonly frame: Uint8Array | null } => {
  // Most records hold no task: those need no copy.
  const frame = record.message === undefined ? null : toFrame(record.id, record.message)
  const json = toJson(frame === null ? record : withoutMessage(record))
  const extra = frame?.length ?? 0
  if (json.length * 3 + extra > MAX_RECORD && Buffer.byteLength(json) + extra > MAX_RECORD) {
    throw new TransportError("too-large", `the record of ${record.id} is over ${MAX_RECORD} bytes`)
  }
  return { json, frame }
}

const withoutMessage = ({ message: _message, ...rest }: JobRecord): JobRecord => rest

const toJson = (record: JobRecord): string => {
  try {
    return recordToJson(record)
  } catch (cause) {
    throw new TransportError("invalid", `the record of ${record.id} is not plain JSON: ${String(cause)}`, { cause })
  }
}

const toFrame = (id: string, message: Message): Uint8Array => {
  const encoded = encodeEnvelope(message)
  if (encoded._tag === "Failure") throw invalid(`the record of ${id}: ${encoded.failure.message}`)
  return encoded.success
}

const overOf = (record: JobRecord, now: number): number | null => {
  if (record.tombstone) return now + TOMBSTONE_MS
  const { state, endedAt, keepMs } = record
  if (!isTerminal(state) || endedAt === undefined || keepMs === undefined || keepMs < 0) return null
  const over = Math.ceil(endedAt + keepMs)
  return Number.isSafeInteger(over) ? over : null
}
