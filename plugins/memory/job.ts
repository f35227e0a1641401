/** What is stored about one job, and who may still write about it. */
import { Buffer } from "node:buffer"
import { isTakenEarly, recordFromJson, recordToJson, tombstoneOf } from "../../runtime/protocol/record.ts"
import { isTerminal } from "../../runtime/protocol/state.ts"
import {
  type JobRecord,
  type Posting,
  type Revision,
  TOMBSTONE_MS,
  TransportError,
} from "../../runtime/transport/mod.ts"
import type { Stored, Task } from "./state.ts"

/** Fails with `invalid` when the record is not JSON, `too-large` when it is over `limit` bytes. */
export const write = (record: JobRecord, revision: Revision, limit: number): Stored => {
  let text: string
  try {
    text = recordToJson(record)
  } catch (cause) {
    throw new TransportError("invalid", `the record of ${record.id} is not plain JSON: ${String(cause)}`)
  }
  // Three bytes of UTF-8 per character at most: most records need no counting.
  if (text.length * 3 > limit && Buffer.byteLength(text) > limit) {
    throw new TransportError("too-large", `the record of ${record.id} is over ${limit} bytes`)
  }
  const { state, run, retries, acked = false, fence, successor, tombstone = false, endedAt, keepMs = -1 } = record
  const ends = isTerminal(state) && endedAt !== undefined && keepMs >= 0
  const until = tombstone ? Date.now() + TOMBSTONE_MS : ends ? endedAt + keepMs : Infinity
  return { text, revision, state, run, retries, acked, fence, successor, tombstone, until }
}

export const read = ({ text }: Stored): JobRecord => {
  const record = recordFromJson(text)
  if (record._tag === "Success") return record.success
  throw new TransportError("internal", record.failure.message)
}

/** A record, or its tombstone once it was kept long enough. */
export const aged = (stored: Stored, now: number): JobRecord =>
  stored.until <= now ? tombstoneOf(read(stored)) : read(stored)

/** Whether `key` carries the job on from `posting`: deliveries of `posting` are over then. */
const isAhead = (key: string, posting: Omit<Posting, "message">): boolean => {
  const [run = 0, retries = 0, hops = 0] = key
    .slice(posting.id.length + 1)
    .split("/")
    .map(Number)
  if (run !== posting.run) return run > posting.run
  return retries !== posting.retries ? retries > posting.retries : hops > (posting.hops ?? 0)
}

/** Whether a posting has nothing left to do: its run is over, went on to a successor, or goes on without its task. */
export const isOver = (stored: Stored, posting: Omit<Posting, "message">): boolean =>
  stored.run > posting.run ||
  isTakenEarly(stored, posting) ||
  (stored.run === posting.run &&
    (isTerminal(stored.state) || (stored.successor !== undefined && isAhead(stored.successor, posting))))

/** Whether a delivery with this fence may write this record. `done`: it did already, and that stands. */
export const judge = (
  stored: Stored | undefined,
  record: Pick<JobRecord, "run" | "state">,
  fence: string,
  task: Task | undefined,
): "write" | "done" | "superseded" => {
  // A newer delivery of the same task may have begun already, although it has not claimed yet.
  if (task !== undefined && task.fence !== fence) return "superseded"
  if (stored === undefined) return "write"
  if (stored.run > record.run || stored.fence > fence) return "superseded"
  // The record ends a run by beginning the next one: only a run that nobody has ended can be.
  if (stored.run < record.run) return isTerminal(stored.state) ? "superseded" : "write"
  if (stored.fence !== fence) {
    const over = isTerminal(stored.state) || (task !== undefined && isOver(stored, task.posting))
    return over ? "superseded" : "write"
  }
  // Our own outcome, unless somebody who cancelled the job left our fence in the record.
  if (isTerminal(stored.state)) return stored.state === record.state ? "done" : "superseded"
  return "write"
}
