/** Posts jobs to a board. */
import { MAX_TRIES } from "../async/conflicts.ts"
import { asTransportError, CallboardError } from "../errors.ts"
import { generateId } from "../id.ts"
import { BOARD_RESERVE_BYTES, type BoardRecord, boardJobId, parsePriority, posted } from "../protocol/board.ts"
import { checkPostOptions, detailsOf } from "./call-options.ts"
import type { BoardEntries, Known } from "./entries.ts"
import { accepted } from "./failure.ts"
import type { BoardJob } from "./job.ts"
import { type PostOptions, parsePost } from "./requests.ts"
import type { Session } from "./session.ts"

type Content = Pick<BoardRecord, "name" | "priority" | "details" | "book">

/** A job that is to be posted, and the length of the text of its details. */
export interface BoardPosting {
  readonly content: Content
  readonly length: number
}

/** Checks a job that is to be posted. Fails with `invalid-input`, naming the field. */
export const postingOf = (name: string, options: PostOptions): BoardPosting => {
  checkPostOptions(options)
  const { priority = "NORMAL", book } = parsePost({ ...options, name })
  const { details, length } = detailsOf(options.details)
  const content = { name, priority: accepted(parsePriority(priority)), details }
  return { content: book === undefined ? content : { ...content, book }, length }
}

export const post = async (session: Session, { content, length }: BoardPosting): Promise<BoardJob> => {
  const { entries, connection, candidates, notifications, board } = session
  const now = await entries.now()
  checkSize(entries, content, length, connection.transport.capabilities.maxRecord)
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const stored = await store(session, content, now)
    if (stored === undefined) continue
    candidates.posted(stored)
    notifications.announce("POSTED", stored.record)
    return board.handles.handle(stored)
  }
  throw new CallboardError("overloaded", `too many concurrent posts to board ${board.name}: try again`)
}

/** A text of up to so many characters always fits, however it is encoded. */
const SHORT = 4_096
/** Most bytes of a character of JSON. */
const BYTES = 3

/** Refuses a job that is too large, also with its claims to come, before anything is written. */
const checkSize = (entries: BoardEntries, content: Content, length: number, maxRecord: number): void => {
  const max = maxRecord - BOARD_RESERVE_BYTES
  if ((length + SHORT) * BYTES <= max) return
  const size = entries.encode(posted("", content, 0)).length
  if (size <= max) return
  const message = `the job has ${size} bytes; at most ${max} are allowed: store large data elsewhere and post its address`
  throw new CallboardError("too-large", message, { field: "details" })
}

/** Creates the entry; `undefined` where its place was taken, or where readers do not look there any more. */
const store = async ({ entries, places }: Session, content: Content, now: number): Promise<Known | undefined> => {
  const place = places.known(content.priority) ?? (await places.offer(content.priority))
  const { key } = place
  const record = posted(boardJobId(generateId(), place), content, now)
  const written = await entries.store.write([{ key, value: entries.encode(record), expect: "" }])
  if (written === "conflict") {
    places.missed(place)
    return undefined
  }
  const [revision = ""] = written
  const sequence = Number(revision)
  places.hit(place, sequence)
  const known = { key, record: { ...record, sequence }, revision }
  if (places.isFresh(place)) return known
  const unsure = (failure: unknown): never => {
    const cause = asTransportError(failure)
    const message = `the job may have been posted: ${cause.message}`
    throw new CallboardError("transport-unavailable", message, { outcome: "unknown", cause })
  }
  if (await places.isRead(place).catch(unsure)) return known
  const removed = await entries.store.write([{ key, value: null, expect: revision }]).catch(unsure)
  // A conflict means that the job has been claimed already: so readers have found it.
  return removed === "conflict" ? known : undefined
}
