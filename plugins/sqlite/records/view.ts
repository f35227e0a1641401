/** A job as it is to be seen: what is stored about it, or what follows from the task that waits. */
import { decodeEnvelope } from "../../../runtime/protocol/envelope.ts"
import { isUndecodable, type Message } from "../../../runtime/protocol/message.ts"
import { recordOfPosting, tombstoneOf } from "../../../runtime/protocol/record.ts"
import type { JobRecord, Revision } from "../../../runtime/transport/mod.ts"
import { isGone, type JobRow, type Load, readRecord } from "../jobs/job-table.ts"
import { keyOf } from "../jobs/number.ts"

/** Whether a delivery has the task. A lapsed one has not. */
export const isHeld = (row: Pick<JobRow, "at" | "fence">, now: number): boolean =>
  row.fence !== null && row.fence > 0 && row.at !== null && row.at > now

export const revisionOf = (row: JobRow | undefined): Revision => (row?.rev == null ? "" : String(row.rev))

/** `undefined`: there is nothing to be seen (any more), or the task that waits cannot be read. */
export const viewOf = (row: JobRow, id: string, queue: string, load: Load, now: number): JobRecord | undefined => {
  // Over is over, also while a task of the job is still out.
  if (row.at === null || (row.over !== null && row.over <= now) || row.grave === 1) return ended(row, load, now)
  const message = messageIn(load)
  const held = isHeld(row, now)
  // What a run reported is void once its lease has lapsed, unless it had claimed the job.
  const known = row.rev !== null || (held && row.state !== null)
  if (!known) return message && waiting(row, id, queue, message, now)
  const record = readRecord(load.record)
  const waits = !held && (record.state === "scheduled" || record.state === "queued")
  return {
    ...record,
    ...(waits ? { state: waitingState(row, now) } : {}),
    ...(message === undefined ? {} : { message }),
  }
}

const messageIn = ({ envelope }: Load): Message | undefined => {
  if (envelope === null) return undefined
  const message = decodeEnvelope(envelope)
  return isUndecodable(message) ? undefined : message
}

const ended = (row: JobRow, load: Load, now: number): JobRecord | undefined => {
  if (row.state === null || isGone(row, now)) return undefined
  // Maintenance has not come by yet.
  if (row.grave === 0 && row.over !== null && row.over <= now) return tombstoneOf(readRecord(load.record))
  const record = readRecord(load.record)
  const message = row.keeps === 1 ? messageIn(load) : undefined
  return message === undefined ? record : { ...record, message }
}

const waiting = (row: JobRow, id: string, queue: string, message: Message, now: number): JobRecord | undefined => {
  const { run, retries, hops } = keyOf(row.nth)
  const derived = recordOfPosting(
    {
      id,
      run,
      retries,
      ...(hops > 0 ? { hops } : {}),
      queue,
      ...(row.due !== null ? { due: row.due } : {}),
      ...(row.expires !== null ? { expires: row.expires } : {}),
      message,
    },
    row.posted ?? now,
  )
  if (derived._tag === "Failure") return undefined
  return { ...derived.success, state: waitingState(row, now), message }
}

/** A task in somebody's hands is no longer put off, whatever the end of its lease. */
const waitingState = (row: JobRow, now: number): "scheduled" | "queued" =>
  row.fence === null && row.at !== null && row.at > now ? "scheduled" : "queued"
