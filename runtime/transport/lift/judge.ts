/** What a stored record means for a posting, for a follow-up, and for an attempt. Pure: the rules of all transports. */
import type { AddressedTask } from "../../protocol/message.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { isTakenEarly } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import { type Attempt, inOrder, NO_ORDER, type Order, orderOf, orderOfKey, parseFence } from "./attempt.ts"

/** Where a posting stands in its job. */
export interface Position extends Pick<AddressedTask, "run" | "retries"> {
  readonly order: Order
}

export const positionOf = (posting: Pick<AddressedTask, "run" | "retries" | "hops">): Position => ({
  run: posting.run,
  retries: posting.retries,
  order: orderOf(posting),
})

/** Of the posting that an attempt was made for. */
export const positionOfAttempt = ({ order }: Attempt): Position => ({ ...inOrder(order), order })

/**
 * Whether a posting has nothing left to do: a later run is stored, or its run has ended, or went on to a successor, or is
 * in the hands of a later posting, or was taken off its queue by another attempt than `fence`.
 */
export const isOver = (stored: JobRecord, posting: Position, fence: string): boolean => {
  if (stored.run !== posting.run) return stored.run > posting.run
  if (isTerminal(stored.state)) return true
  if (stored.successor !== undefined && orderOfKey(stored.id, stored.successor) > posting.order) return true
  if (stored.fence !== fence && isTakenEarly(stored, posting)) return true
  const by = parseFence(stored.fence)
  return by !== undefined && by.order !== NO_ORDER && by.order > posting.order
}

/** What is known about the job of a follow-up. */
export interface KnownJob {
  readonly record?: JobRecord
  /** Of the newest task of the job that is in a queue. */
  readonly task?: Order
}

/**
 * Whether a follow-up of the job `owner` need not be posted again: its task is in a queue, or its job has a record; of the
 * own job, one that has come as far as this posting.
 */
export const isPosted = (followUp: AddressedTask, owner: string, kept: KnownJob | undefined): boolean => {
  if (kept === undefined) return false
  const order = orderOf(followUp)
  const { record, task } = kept
  if (followUp.id !== owner) return task !== undefined || record !== undefined
  if (task !== undefined && task >= order) return true
  if (record === undefined) return false
  if (record.run !== followUp.run) return record.run > followUp.run
  if (isTerminal(record.state) || record.retries > followUp.retries) return true
  const by = parseFence(record.fence)
  return by !== undefined && by.order !== NO_ORDER && by.order >= order
}

/**
 * What becomes of a claim. `over`: the posting has nothing left to do. `mine`: this very attempt has claimed already.
 * `late`: a later delivery of the same task has claimed. Else `claim`.
 */
export const judgeStart = (
  stored: JobRecord | undefined,
  posting: Position,
  attempt: Attempt,
): "finished" | "repeated" | "superseded" | "start" => {
  if (stored === undefined) return "start"
  if (isOver(stored, posting, attempt.fence)) return "finished"
  if (stored.fence === attempt.fence && stored.state === "started") return "repeated"
  return isNewer(stored, attempt) ? "superseded" : "start"
}

/** Whether the record was written by a delivery of the attempt's own posting that came after it, or beside it. */
const isNewer = (stored: JobRecord, attempt: Attempt): boolean => {
  const by = parseFence(stored.fence)
  const mine = parseFence(attempt.fence)
  return by !== undefined && mine !== undefined && by.order === mine.order && by.fence >= mine.fence
}

/** Whether it was written by a delivery that the attempt's own came after: of its task, or of an earlier posting. */
const isOlder = (stored: JobRecord, attempt: Attempt): boolean => {
  const by = parseFence(stored.fence)
  return by !== undefined && by.order !== NO_ORDER && by.order <= attempt.order && !isNewer(stored, attempt)
}

/**
 * What becomes of a record that met another revision than it expected. `again`: store it over what was read. `done`: it is
 * stored already, and the answer was lost. `refused`: another attempt has the job, or it is decided.
 */
export const judgeConflict = (
  stored: JobRecord | undefined,
  wanted: JobRecord,
  attempt: Attempt,
): "retry" | "stored" | "superseded" => {
  if (stored === undefined) return "retry"
  if (stored.fence === attempt.fence) {
    if (stored.state === "started") return "retry"
    const same = stored.state === wanted.state && stored.run === wanted.run && stored.retries === wanted.retries
    return same && stored.successor === wanted.successor ? "stored" : "superseded"
  }
  // What cannot be read as a task belongs to no job: that it is recorded is all that its task waits for.
  if (attempt.order === NO_ORDER) return isTerminal(stored.state) ? "stored" : "retry"
  if (isOver(stored, positionOfAttempt(attempt), attempt.fence)) return "superseded"
  if (stored.state === "started") return isOlder(stored, attempt) ? "retry" : "superseded"
  return isNewer(stored, attempt) ? "superseded" : "retry"
}
