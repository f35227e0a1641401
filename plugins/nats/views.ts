/**
 * A job as it is to be seen, put together from where it may be: its task in the queue, what its run last said, and its
 * record, which has the last word. Pure.
 */
import { decodeEnvelope } from "../../runtime/protocol/envelope.ts"
import { postingOf } from "../../runtime/protocol/headers.ts"
import { isUndecodable, type Message, type Posting } from "../../runtime/protocol/message.ts"
import { type JobRecord, recordOfPosting } from "../../runtime/protocol/record.ts"
import { isTerminal } from "../../runtime/protocol/state.ts"
import { aged, type Kept } from "./journal.ts"
import type { Names } from "./streams/names.ts"
import type { StoredMessage } from "./streams/reader.ts"

/** A task in the queue stream. */
export interface Waiting {
  readonly message: Message
  readonly posting: Posting
  /** Not moved to its queue yet. */
  readonly scheduled: boolean
  readonly seq: number
}

/** The task in a message of the queue stream; `undefined` when it holds none. */
export const readWaiting = (stored: StoredMessage, names: Names): Waiting | undefined => {
  const address = names.parseTask(stored.subject)
  const message = decodeEnvelope(stored.data)
  if (address === undefined || isUndecodable(message)) return undefined
  const posting = postingOf(message, address.queue)
  if (posting._tag === "Failure") return undefined
  return { message, posting: posting.success, scheduled: address.scheduled, seq: stored.seq }
}

/** Where a job was found. */
export interface Traces {
  readonly waiting: Waiting | undefined
  /** What its run last said. */
  readonly said: JobRecord | undefined
  readonly kept: Kept | undefined
}

export const view = ({ waiting, said, kept }: Traces, now: number): JobRecord | undefined => {
  const record = current(said, kept?.record) ?? derived(waiting, now)
  if (record === undefined) return undefined
  if (isTerminal(record.state)) return aged(record, now)
  if (waiting === undefined) return record
  return { ...record, state: stateOf(record, waiting, now), message: waiting.message }
}

/** What a run says counts while nothing else is stored, or while its own claim is what is stored. */
const current = (said: JobRecord | undefined, kept: JobRecord | undefined): JobRecord | undefined => {
  if (said === undefined || kept === undefined) return kept ?? said
  return kept.state === "started" && kept.fence === said.fence ? said : kept
}

const derived = (waiting: Waiting | undefined, now: number): JobRecord | undefined => {
  if (waiting === undefined) return undefined
  const record = recordOfPosting(waiting.posting, now)
  return record._tag === "Success" ? record.success : undefined
}

/** A job that is to wait for its time does so for as long as the server has not moved its task. */
const stateOf = (
  { state }: JobRecord,
  { scheduled, posting: { due = 0 } }: Waiting,
  now: number,
): JobRecord["state"] => {
  if (state !== "scheduled" && state !== "queued") return state
  return scheduled && due > now ? "scheduled" : "queued"
}
