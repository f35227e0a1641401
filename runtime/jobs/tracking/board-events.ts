/** Follows the whole board: each change of a job as one event. */

import { latest } from "../../async/latest.ts"
import type { Connection } from "../../connection/connection.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { type JobView, jobView, transitionView } from "../view.ts"
import type { JobEvent } from "./following.ts"

/** One change of one job, in the stream of all jobs. */
export interface BoardEvent {
  readonly job: JobView
  readonly event: JobEvent
}

/** The newest event of a record: its progress or its last transition. `undefined` where it has neither. */
export const boardEventOf = (record: JobRecord): BoardEvent | undefined => {
  const { state, timeline, progress } = record
  const transition = timeline.at(-1)
  if (state === "started" && progress !== undefined && progress.at > (transition?.at ?? 0)) {
    const at = new Date(progress.at).toISOString()
    return { job: jobView(record), event: { type: "progress", ...progress, at } }
  }
  if (transition === undefined) return undefined
  return { job: jobView(record), event: { type: "transition", ...transitionView(transition) } }
}

/**
 * The changes of all jobs, from now on, one event each, until the signal fires or the iteration ends. Bounded: a slow reader
 * misses events.
 */
export const followBoard = async function* (
  connection: Connection,
  signal: AbortSignal,
): AsyncGenerator<BoardEvent, void, undefined> {
  const records = latest<JobRecord>((push, listening) => connection.jobs.watch({}, push, listening), signal)
  for await (const record of records) {
    const event = boardEventOf(record)
    if (event !== undefined) yield event
  }
}
