/** What is stored about one job, and who may still write about it. Pure. */
import { Buffer } from "node:buffer"
import { publishKey } from "../../runtime/protocol/message.ts"
import { recordFromJson, recordToJson } from "../../runtime/protocol/record.ts"
import { isTerminal } from "../../runtime/protocol/state.ts"
import { type JobRecord, type Posting, type Revision, TransportError } from "../../runtime/transport.ts"
import type { Task } from "./lane.ts"

export interface Job {
  readonly id: string
  /** Of its first appearance: what lists are ordered by. */
  readonly sequence: number
  /** Publish keys seen, for as long as the job is known. */
  readonly keys: string[]
  readonly tasks: Set<Task>
  /** Whether any delivery was ever handed over. */
  delivered: boolean
  stored: Stored | undefined
  /** What the current delivery last said about its run. */
  reported: Stored | undefined
}

/** A record as text, so that nobody outside can change it, with what lists and fences look at. */
export interface Stored {
  readonly text: string
  readonly head: Omit<JobRecord, "timeline" | "result" | "error" | "message" | "raw" | "followUps" | "meta" | "progress">
  readonly revision: Revision
}

/** Fails with `invalid` when the record is not JSON, `too-large` when it is over `limit` bytes. */
export const store = (record: JobRecord, revision: Revision, limit: number): Stored => {
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
  const { timeline, result, error, message, raw, followUps, meta, progress, ...head } = record
  return { text, head, revision }
}

export const read = ({ text }: Stored): JobRecord => {
  const record = recordFromJson(text)
  if (record._tag === "Failure") throw new TransportError("internal", record.failure.message)
  return record.success
}

/** What is left of a record that was kept long enough. */
export const tombstoneOf = (stored: Stored): JobRecord => ({ ...stored.head, timeline: [], tombstone: true })

/** Whether `key` carries the job on from `posting`: deliveries of `posting` are over then. */
export const isAhead = (key: string, posting: Omit<Posting, "message">): boolean => {
  const [run = 0, retries = 0, hops = 0] = key.slice(posting.id.length + 1).split("/").map(Number)
  return run !== posting.run
    ? run > posting.run
    : retries !== posting.retries
      ? retries > posting.retries
      : hops > (posting.hops ?? 0)
}

/** Whether a delivery with this fence may write about its job's run. `done`: it did already, and that stands. */
export const judge = (
  job: Job | undefined,
  record: Pick<JobRecord, "run" | "state">,
  fence: string,
  task: Task | undefined,
): "write" | "done" | "superseded" => {
  // A newer delivery of the same task may have begun already, although it has not claimed yet.
  if (task !== undefined && task.fence !== fence) return "superseded"
  const stored = job?.stored?.head
  if (stored === undefined || stored.run < record.run) return "write"
  if (stored.run > record.run || stored.fence > fence || stored.tombstone) return "superseded"
  if (stored.fence === fence) {
    if (!isTerminal(stored.state)) return "write"
    return stored.state === record.state ? "done" : "superseded"
  }
  if (isTerminal(stored.state)) return "superseded"
  const over = task !== undefined && stored.successor !== undefined && isAhead(stored.successor, task.posting)
  return over ? "superseded" : "write"
}

export const knows = (job: Job, posting: Posting): boolean => job.keys.includes(publishKey(posting))
