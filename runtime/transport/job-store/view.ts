/** Merges record, task and run note of a job into the record that is shown. Pure. */
import { postingOf } from "../../protocol/headers.ts"
import { isUndecodable, type Message } from "../../protocol/message.ts"
import { withMetaChange } from "../../protocol/meta-patch.ts"
import { type JobRecord, recordOfPosting, tombstoneOf } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import type { Known, QueuedTask } from "../known.ts"
import type { Revision } from "../store.ts"
import { decodeContent, decodeStored } from "./codec.ts"
import { TOMBSTONE_MS } from "./transport.ts"

/** The last report of a running attempt. Void once the job has another revision than `about`. */
export interface RunNote {
  readonly about: Revision
  readonly record: JobRecord
}

/** The record; its tombstone once `keepMs` have passed; `undefined` an hour after that. */
const aged = (record: JobRecord, now: number): JobRecord | undefined => {
  const { state, endedAt, keepMs = -1, tombstone } = record
  if (tombstone || !isTerminal(state) || endedAt === undefined || keepMs < 0 || now < endedAt + keepMs) return record
  return now < endedAt + keepMs + TOMBSTONE_MS ? tombstoneOf(record) : undefined
}

/** `undefined` where nothing is left of the job. Fails with a `TransportError` where the stored record cannot be read. */
export const viewOf = (known: Known, note: RunNote | undefined, now: number): JobRecord | undefined => {
  const stored = known.record && decodeStored(known.record)
  const { task } = known
  // While a task of the job is in a queue the tombstone stays, so that the task is not run again.
  const before = stored && (aged(stored, now) ?? (task && tombstoneOf(stored)))
  // After the outcome was stored, the task may be in the queue for a moment more; it no longer matters.
  if (before !== undefined && isTerminal(before.state)) return before
  const message = task && decodeContent(task.content)
  if (task === undefined || message === undefined || isUndecodable(message)) return before
  const runs = note !== undefined && task.held !== false && isAbout(note, known.revision, before)
  const record = runs ? reportedRecord(note, known.revision, before) : before
  if (record === undefined) return waiting(task, message, now)
  const waits = record.state === "queued" || record.state === "scheduled"
  return waits ? { ...record, state: waitingState(task, now), message } : { ...record, message }
}

/** A change of the meta data from outside gives the job another revision, and ends no attempt. */
export const isAbout = ({ about }: RunNote, revision: Revision, stored: JobRecord | undefined): boolean =>
  about === revision || (stored?.metaChange !== undefined && about === stored.metaChange.about)

/** What was reported, with the change of the meta data that the worker does not know of. */
export const reportedRecord = (
  { about, record }: RunNote,
  revision: Revision,
  stored: JobRecord | undefined,
): JobRecord =>
  about === revision || stored?.metaChange === undefined
    ? record
    : { ...withMetaChange(record, stored.metaChange), metaChange: stored.metaChange }

/** The record of a job of which only the task is stored. */
const waiting = (task: QueuedTask, message: Message, now: number): JobRecord | undefined => {
  const posting = postingOf(message, task.queue)
  if (posting._tag === "Failure") return undefined
  const derived = recordOfPosting(posting.success, task.at)
  if (derived._tag === "Failure") return undefined
  return { ...derived.success, state: waitingState(task, now), message }
}

/** A task that a delivery has is due, whatever it was posted with. */
const waitingState = ({ due, held }: QueuedTask, now: number): "scheduled" | "queued" =>
  held !== true && due !== undefined && due > now ? "scheduled" : "queued"
