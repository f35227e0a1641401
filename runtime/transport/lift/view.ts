/** What is to be seen of a job: its record, its task and the note about its run, as one record. Pure. */
import { postingOf } from "../../protocol/headers.ts"
import { isUndecodable, type Message } from "../../protocol/message.ts"
import { type JobRecord, recordOfPosting, tombstoneOf } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import type { Known, QueuedTask } from "../known.ts"
import type { Revision } from "../store.ts"
import { decodeContent, decodeStored } from "./codec.ts"
import { TOMBSTONE_MS } from "./transport.ts"

/** What a worker says about a run while it goes on. Means nothing once the job has another revision. */
export interface RunNote {
  readonly about: Revision
  readonly record: JobRecord
}

/** A record, its tombstone once it was kept long enough, and an hour later nothing. */
export const aged = (record: JobRecord, now: number): JobRecord | undefined => {
  const { state, endedAt, keepMs = -1, tombstone } = record
  if (tombstone || !isTerminal(state) || endedAt === undefined || keepMs < 0 || now < endedAt + keepMs) return record
  return now < endedAt + keepMs + TOMBSTONE_MS ? tombstoneOf(record) : undefined
}

/** `undefined`: nothing is left of the job. Fails with a `TransportError` where the stored record cannot be read. */
export const viewOf = (known: Known, note: RunNote | undefined, now: number): JobRecord | undefined => {
  const stored = known.record && decodeStored(known.record)
  const { task } = known
  // A task that is still in a queue must find that its job is over, however long ago.
  const before = stored && (aged(stored, now) ?? (task && tombstoneOf(stored)))
  // The task of a job that is over may still be on its way out of the queue: it says nothing any more.
  if (before !== undefined && isTerminal(before.state)) return before
  const message = task && decodeContent(task.content)
  if (task === undefined || message === undefined || isUndecodable(message)) return before
  const runs = note !== undefined && note.about === known.revision && task.held !== false
  const record = runs ? note.record : before
  if (record === undefined) return waiting(task, message, now)
  const waits = task.held !== true && (record.state === "queued" || record.state === "scheduled")
  return waits ? { ...record, state: waitingState(task, now), message } : { ...record, message }
}

/** A job that nothing is stored about but its task. */
const waiting = (task: QueuedTask, message: Message, now: number): JobRecord | undefined => {
  const posting = postingOf(message, task.queue)
  if (posting._tag === "Failure") return undefined
  const derived = recordOfPosting(posting.success, task.at)
  if (derived._tag === "Failure") return undefined
  return { ...derived.success, state: waitingState(task, now), message }
}

/** A task that a delivery has is no longer put off. */
const waitingState = ({ due, held }: QueuedTask, now: number): "scheduled" | "queued" =>
  held !== true && due !== undefined && due > now ? "scheduled" : "queued"
