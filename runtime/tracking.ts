/** The reading side: find a job, wait for its end, follow its events. */
import { Result } from "effect"
import type { Board } from "./board.ts"
import { CallboardError, JobCancelled, JobExpired, JobFailed, ResultGone, WaitTimeout } from "./errors.ts"
import { latest } from "./latest.ts"
import { parseTask } from "./protocol/headers.ts"
import { isId } from "./protocol/name.ts"
import { type JobError, type JobRecord, type Progress, step } from "./protocol/record.ts"
import { isTerminal } from "./protocol/state.ts"
import type { Found } from "./transport.ts"
import { type JobView, jobView, type TransitionView, transitionView } from "./view.ts"

/** How a job ended. */
export type Outcome<R = unknown> =
  | { readonly state: "succeeded"; readonly result: R }
  | { readonly state: "failed"; readonly error: JobError }
  | { readonly state: "cancelled" }
  | { readonly state: "expired" }
  /** It ended, and what came of it is not kept any more. */
  | { readonly state: "gone" }

/** What a job's stream of events brings. `id` is absent on progress, which is a last value and not replayed. */
export type JobEvent =
  | ({ readonly type: "transition" } & TransitionView)
  | { readonly type: "progress"; readonly fraction: number; readonly detail?: unknown; readonly at: string }

/** A watch is best effort: a waiting reader looks for itself this often. */
const LOOK_AGAIN_MS = 5_000

/**
 * A run is reported when it has lasted for a moment: until then a job that started just in time looks as if it waited.
 * Its worker judges expiry to the millisecond; who only looks at the job waits for this much longer.
 */
const UNREPORTED_MS = 500

const notFound = (id: string): CallboardError => new CallboardError("not-found", `there is no job ${id}`, { id })

/** Only the tombstone of a job is left. */
export const goneError = (id: string): CallboardError =>
  new CallboardError("gone", `job ${id} ended, and what came of it is not kept any more`, { id })

/** The record of a job, expiry judged. Fails with `not-found`. */
export const findRecord = async (board: Board, id: string): Promise<Found> => {
  // No job can have such an id, and a transport need not be able to look for it.
  const found = isId(id) ? await board.records.find(id) : undefined
  if (found === undefined) throw notFound(id)
  return isOverdue(found.record, Date.now()) ? expire(board, found) : found
}

/** Whether a job waits past its time, as far as somebody can tell who does not hold its task. */
export const isOverdue = ({ state, expiresAt }: JobRecord, now: number): boolean =>
  (state === "queued" || state === "scheduled" || state === "deferred") &&
  expiresAt !== undefined &&
  expiresAt + UNREPORTED_MS <= now

/** Records that a waiting job is past its time. Whoever notices first does it: a worker, a reader or maintenance. */
export const expire = async (board: Board, found: Found): Promise<Found> => {
  const now = Date.now()
  const record: JobRecord = {
    ...step(found.record, { at: now, state: "expired" }),
    fence: NO_FENCE,
    endedAt: now,
    keepMs: keepOf(found.record),
  }
  const [changed] = await board.records.change([{ id: record.id, expect: found.revision, record, withdraw: true }])
  if (changed?.status === "changed") return { record, revision: found.revision }
  return (await board.records.find(record.id)) ?? found
}

/**
 * What a decision from outside of a delivery writes: kept, a delivery that settles later would take the record for its
 * own, and its refusal for a lost acknowledgement.
 */
export const NO_FENCE = ""

const EXPIRED_KEEP_MS = 7 * 86_400_000

/** How long a job that is cancelled or expires while it waits is kept: as its failure would be, else as failures are by default. */
export const keepOf = ({ message }: JobRecord): number => {
  const task = message === undefined ? undefined : Result.getOrUndefined(parseTask(message))
  return task?.own.failureTtlMs ?? EXPIRED_KEEP_MS
}

export const outcomeOf = (record: JobRecord): Outcome | undefined => {
  if (!isTerminal(record.state)) return undefined
  if (record.tombstone) return { state: "gone" }
  switch (record.state) {
    case "succeeded":
      return { state: "succeeded", result: record.result ?? null }
    case "cancelled":
      return { state: "cancelled" }
    case "expired":
      return { state: "expired" }
    default:
      return {
        state: "failed",
        error: record.error ?? { name: "Error", message: "no reason was recorded", reason: "unknown" },
      }
  }
}

/** The value of an outcome; throws the others. */
export const valueOf = (id: string, outcome: Outcome): unknown => {
  switch (outcome.state) {
    case "succeeded":
      return outcome.result
    case "failed":
      throw new JobFailed(id, outcome.error)
    case "cancelled":
      throw new JobCancelled(id)
    case "expired":
      throw new JobExpired(id)
    case "gone":
      throw new ResultGone(id)
  }
}

/**
 * Waits for the end of a job's current run. Resolves with its terminal record (a tombstone if it is gone).
 * Fails with `WaitTimeout` after `timeoutMs`, and with `not-found`.
 */
export const waitForEnd = async (
  board: Board,
  id: string,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<JobRecord> => {
  if (!isId(id)) throw notFound(id)
  const stop = new AbortController()
  const began = Date.now()
  return new Promise<JobRecord>((resolve, reject) => {
    let look: ReturnType<typeof setInterval> | undefined
    const timer = Number.isFinite(timeoutMs)
      ? setTimeout(() => finish(() => reject(new WaitTimeout(id, timeoutMs))), Math.min(timeoutMs, 2 ** 31 - 1))
      : undefined
    const aborted = () => finish(() => reject(signal?.reason ?? new WaitTimeout(id, Date.now() - began)))
    const finish = (then: () => void) => {
      if (stop.signal.aborted) return
      stop.abort()
      clearTimeout(timer)
      clearInterval(look)
      signal?.removeEventListener("abort", aborted)
      then()
    }
    const seen = (record: JobRecord) => {
      if (isTerminal(record.state)) finish(() => resolve(record))
    }
    const lookNow = () => findRecord(board, id).then((found) => seen(found.record))
    if (signal?.aborted) return aborted()
    signal?.addEventListener("abort", aborted, { once: true })
    // Watch first, then look: what ends in between is seen either way.
    board.records
      .watch({ id }, seen, stop.signal)
      .then(lookNow)
      .then(() => {
        if (stop.signal.aborted) return
        look = setInterval(() => {
          // A transport that is down now may be back at the next look; the deadline bounds the wait.
          lookNow().catch((cause: unknown) => {
            if (cause instanceof CallboardError) finish(() => reject(cause))
          })
        }, LOOK_AGAIN_MS)
      })
      .catch((cause: unknown) => finish(() => reject(cause)))
  })
}

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
 * A job's transitions, replayed from its record after `lastEventId` and then live, with progress in between; ends with
 * the run. Fails with `not-found`.
 */
export const followJob = async function* (
  board: Board,
  id: string,
  options: { readonly lastEventId?: string; readonly signal?: AbortSignal } = {},
): AsyncGenerator<JobEvent, void, undefined> {
  if (!isId(id)) throw notFound(id)
  const stop = new AbortController()
  const signal = options.signal === undefined ? stop.signal : AbortSignal.any([stop.signal, options.signal])
  // Only the latest record matters: a slow reader skips versions, and the timeline holds what it skipped.
  let latest: JobRecord | undefined
  let refused: CallboardError | undefined
  let wake: (() => void) | undefined
  const seen = (record: JobRecord) => {
    // A look that was under way for long answers with what was: it must not hide newer news.
    if (latest !== undefined && newestOf(record) < newestOf(latest) && !record.tombstone) return
    latest = record
    wake?.()
  }
  let last = numberOf(options.lastEventId)
  let lastProgress = 0
  const look = setInterval(
    () =>
      void findRecord(board, id).then(
        (found) => seen(found.record),
        (cause: unknown) => {
          // A transport that is down now may be back at the next look; a job that is gone for good will not.
          if (!(cause instanceof CallboardError)) return
          refused = cause
          wake?.()
        },
      ),
    LOOK_AGAIN_MS,
  )
  const aborted = () => wake?.()
  signal.addEventListener("abort", aborted)
  try {
    await board.records.watch({ id }, seen, signal)
    const found = await findRecord(board, id)
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
    signal.removeEventListener("abort", aborted)
    stop.abort()
  }
}

/** A change of a job, as it is told to those who follow the whole board. */
export interface BoardEvent {
  readonly job: JobView
  readonly event: JobEvent
}

/** The newest of what a record tells; nothing where it tells nothing. */
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
 * What happens on the whole board, from now on: each change of a job as one event, until the signal fires or the reader
 * leaves. Bounded: a slow reader misses some.
 */
export const followBoard = async function* (
  board: Board,
  signal: AbortSignal,
): AsyncGenerator<BoardEvent, void, undefined> {
  const records = latest<JobRecord>((push, listening) => board.records.watch({}, push, listening), signal)
  for await (const record of records) {
    const event = boardEventOf(record)
    if (event !== undefined) yield event
  }
}
