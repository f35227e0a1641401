/**
 * Turns postings and records into column values before the write lock is taken. A posting or record that cannot be
 * stored fails here.
 */
import { Buffer } from "node:buffer"
import { STATES, type State } from "../../../runtime/protocol/state.ts"
import { checkLevel } from "../../../runtime/transport/checks.ts"
import type { CommitRecord, Posting } from "../../../runtime/transport/driver.ts"
import type { Index } from "../../../runtime/transport/known.ts"
import { TransportError } from "../../../runtime/transport/mod.ts"
import { type IdColumn, idToColumn } from "./id.ts"

/**
 * Largest task, in bytes. The product allows bodies of 1 MiB; the rest is for headers and for tasks of other producers.
 */
export const MAX_TASK = 4 * 1024 * 1024

/** Largest record, in bytes: room for its task in base64, follow-ups and a traceback. */
export const MAX_RECORD = 32 * 1024 * 1024

const MAX_NAME_BYTES = 255

const invalid = (message: string): TransportError => new TransportError("invalid", message)

// ── index ────────────────────────────────────────────────────────────────────────────────────────────────────────────

// The codes are stored in files, so that their order must never change. The partial index over states names `succeeded`
// as 4.
const CODES: ReadonlyMap<State, number> = new Map(STATES.map((state, code) => [state, code]))

export const codeOf = (state: State): number => CODES.get(state) ?? -1

/** What a row of the link table stands for: a job's root, its parent or its group. */
export type LinkKind = 1 | 2 | 3
export const ROOT: LinkKind = 1
export const PARENT: LinkKind = 2
export const GROUP: LinkKind = 3

export interface ListLink {
  readonly kind: LinkKind
  readonly ref: IdColumn
}

const NO_LINKS: ReadonlyArray<ListLink> = []

export const linksOf = (id: string, { root, parent, group }: Index): ReadonlyArray<ListLink> => {
  // Most jobs are their own root, and have no parent and no group.
  if ((root === id || !root) && !parent && !group) return NO_LINKS
  const links: Array<ListLink> = []
  if (root && root !== id) links.push({ kind: ROOT, ref: idToColumn(root) })
  if (parent) links.push({ kind: PARENT, ref: idToColumn(parent) })
  if (group) links.push({ kind: GROUP, ref: idToColumn(group) })
  return links
}

const submittedOf = (id: string, { at }: Index): number => {
  const submitted = Math.floor(at)
  if (Number.isSafeInteger(submitted)) return submitted
  throw invalid(`${id}: at must be milliseconds since the epoch, not ${at}`)
}

// ── postings ─────────────────────────────────────────────────────────────────────────────────────────────────────────

export interface PostingColumns {
  readonly posting: Posting
  readonly id: IdColumn
  readonly key: string
  readonly submitted: number
  readonly due: number | null
  readonly expires: number | null
  readonly frame: Uint8Array
  readonly links: ReadonlyArray<ListLink>
}

/** Fails with `invalid` or `too-large`. */
export const postingColumns = (posting: Posting): PostingColumns => {
  const { id, level, key, queue, index, frame } = posting
  checkLevel(id, level)
  checkName("an id", id)
  checkQueue(queue)
  if (frame.length > MAX_TASK) {
    throw new TransportError("too-large", `${id}: ${frame.length} bytes; at most ${MAX_TASK} are allowed`)
  }
  return {
    posting,
    id: idToColumn(id),
    // Most publish keys begin with the job's id, which its row holds already, so that only the rest is stored.
    key: key.startsWith(`${id}/`) ? key.slice(id.length) : `=${key}`,
    submitted: submittedOf(id, index),
    due: timeOf(posting.due, "due", id),
    expires: timeOf(posting.expires, "expires", id),
    frame,
    links: linksOf(id, index),
  }
}

/** A time in whole milliseconds, rounded up so that nothing happens early. */
const timeOf = (time: number | undefined, field: string, id: string): number | null => {
  if (time === undefined) return null
  const whole = Math.ceil(time)
  if (Number.isSafeInteger(whole) && whole >= 0) return whole
  throw invalid(`${id}: ${field} must be milliseconds since the epoch, not ${time}`)
}

const checkQueue = (queue: string): void => {
  checkName("the name of a queue", queue)
  if (queue.includes("\0")) throw invalid("the name of a queue contains a zero byte")
}

const checkName = (what: string, name: string): void => {
  // A character has at most three bytes of UTF-8 per code unit, so that the bytes of a short name need no counting.
  const short = name.length > 0 && (name.length * 3 <= MAX_NAME_BYTES || Buffer.byteLength(name) <= MAX_NAME_BYTES)
  if (short && name.isWellFormed()) return
  throw invalid(
    `${what} must be 1 to ${MAX_NAME_BYTES} bytes of well-formed text, not ${JSON.stringify(name.slice(0, 80))}`,
  )
}

// ── records ──────────────────────────────────────────────────────────────────────────────────────────────────────────

export interface RecordColumns {
  readonly id: IdColumn
  readonly bytes: Uint8Array
  readonly index: Index
  readonly submitted: number
  readonly state: number
  /** How long the record is kept after its commit, in milliseconds; `undefined` keeps it for ever. */
  readonly keep: number | undefined
}

/** Fails with `invalid` or `too-large`. */
export const recordColumns = (id: string, { bytes, index, keep }: CommitRecord): RecordColumns => {
  checkName("an id", id)
  checkQueue(index.queue)
  const state = codeOf(index.state)
  if (state < 0) throw invalid(`${id}: ${String(index.state)} is not a state`)
  if (bytes.length > MAX_RECORD) {
    throw new TransportError(
      "too-large",
      `the record of ${id} has ${bytes.length} bytes; at most ${MAX_RECORD} are allowed`,
    )
  }
  return { id: idToColumn(id), bytes, index, submitted: submittedOf(id, index), state, keep }
}

/** When a record that is stored at `now` may be removed; `null` if never. */
export const untilOf = ({ keep }: RecordColumns, now: number): number | null => {
  const until = keep === undefined ? Number.POSITIVE_INFINITY : Math.ceil(now + keep)
  return Number.isSafeInteger(until) ? until : null
}
