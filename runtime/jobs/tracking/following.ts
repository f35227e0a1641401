/** Follows a job: its transitions and progress, replayed and then live; or all jobs, each change as one event. */

import { latest } from "../../async/timers.ts"
import type { Connection } from "../../connection/connection.ts"
import { CallboardError } from "../../errors.ts"
import { isId } from "../../protocol/name.ts"
import type { JobRecord, Progress } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import { type JobView, jobView, type TransitionView, transitionView } from "../view.ts"
import { findRecord, notFound, POLL_MS, whenReachable } from "./finding.ts"

/** What a job's stream of events brings. `id` is absent on progress, which is a last value and not replayed. */
export type JobEvent =
  | ({ readonly type: "transition" } & TransitionView)
  | { readonly type: "progress"; readonly fraction: number; readonly detail?: unknown; readonly at: string }

/** The event of a progress report. */
const progressEvent = (progress: Progress): JobEvent => ({
  type: "progress",
  ...progress,
  at: new Date(progress.at).toISOString(),
})

/** Compares event ids `<run>.<n>`; `n` rises over all runs, so that it decides alone. */
const numberOf = (eventId: string | undefined): number => {
  const n = Number(/^\d+\.(\d+)$/.exec(eventId ?? "")?.[1] ?? 0)
  return Number.isSafeInteger(n) ? n : 0
}

const newestOf = (record: JobRecord): number => record.timeline.at(-1)?.n ?? 0

/**
 * A job's transitions, first from its record after `lastEventId` and then live, with progress in between. Ends when the run
 * has ended. Fails with `not-found`.
 */
export const followJob = async function* (
  connection: Connection,
  id: string,
  options: { readonly lastEventId?: string | undefined; readonly signal?: AbortSignal | undefined } = {},
): AsyncGenerator<JobEvent, void, undefined> {
  if (!isId(id)) throw notFound(id)
  const stop = new AbortController()
  const signal = options.signal === undefined ? stop.signal : AbortSignal.any([stop.signal, options.signal])
  // Only the latest record matters: a slow reader skips versions, and the timeline holds what it skipped.
  let latest: JobRecord | undefined
  let refused: CallboardError | undefined
  let wake: (() => void) | undefined
  const seen = (record: JobRecord) => {
    // A read that took long may return an older record than the watch has brought: it must not replace the newer one.
    if (latest !== undefined && newestOf(record) < newestOf(latest) && !record.tombstone) return
    latest = record
    wake?.()
  }
  let last = numberOf(options.lastEventId)
  let lastProgress = 0
  const look = setInterval(
    () =>
      void findRecord(connection, id).then(
        (found) => seen(found.record),
        (cause: unknown) => {
          // A transport that is down may be back at the next read. A job that does not exist will not.
          if (!(cause instanceof CallboardError)) return
          refused = cause
          wake?.()
        },
      ),
    POLL_MS,
  )
  const aborted = () => wake?.()
  signal.addEventListener("abort", aborted)
  try {
    const found = await whenReachable(connection, signal, async (until) => {
      await connection.jobs.watch({ id }, seen, until)
      return findRecord(connection, id)
    })
    if (found === undefined) return
    latest ??= found.record
    if (last > 0 && newestOf(latest) < last) last = 0
    while (!signal.aborted) {
      const record: JobRecord | undefined = latest
      latest = undefined
      if (record !== undefined) {
        const { progress } = record
        for (const transition of record.timeline) {
          if (transition.n <= last) continue
          // The last progress belongs before the end of the run, which ends the stream.
          if (isTerminal(transition.state) && progress !== undefined && progress.at > lastProgress) {
            lastProgress = progress.at
            yield progressEvent(progress)
          }
          last = transition.n
          yield { type: "transition", ...transitionView(transition) }
        }
        if (progress !== undefined && progress.at > lastProgress && !isTerminal(record.state)) {
          lastProgress = progress.at
          yield progressEvent(progress)
        }
        if (isTerminal(record.state)) return
      }
      if (latest === undefined && refused !== undefined) throw refused
      if (latest === undefined && !signal.aborted) {
        await new Promise<void>((resolve) => {
          wake = resolve
        })
        wake = undefined
      }
    }
  } finally {
    clearInterval(look)
    stop.abort()
  }
}

/** One change of one job, in the stream of all jobs. */
interface BoardEvent {
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
