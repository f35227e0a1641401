/** Waits on a board: until there is a job, until one can be claimed, until one was consumed or trashed. */
import { CallboardError } from "../errors.ts"
import { type DurationInput, milliseconds } from "../options/duration.ts"
import { boardPlaceOf } from "../protocol/board.ts"
import { neverPosted } from "./failure.ts"
import { type GivenJob, idOf } from "./handles.ts"
import { type JobWaitOptions, jobWaitOf } from "./job.ts"
import { noJob } from "./no-job.ts"
import type { InSession, Session } from "./session.ts"

/** How often a call that waits reads the board, in milliseconds: notifications may be missed. */
const LOOK_MS = 1_000

export const givenUp = (board: string): never => {
  throw new CallboardError("not-found", `the wait for a job of board ${board} was cancelled`)
}

/** Calls `look` until it finds something, the time is over, the signal fires, or the board is closed. */
export const waiting = async <A>(
  run: InSession,
  ms: number,
  signal: AbortSignal | undefined,
  look: (session: Session) => Promise<A | undefined>,
): Promise<A | undefined> => {
  const end = performance.now() + ms
  for (;;) {
    const found = await run(async (session) => {
      await session.listen()
      const { heardCount } = session.notifications
      const found = await look(session)
      if (found !== undefined) return { found }
      const left = Math.min(end - performance.now(), LOOK_MS)
      if (left > 0) await session.notifications.wait(heardCount, left, signal === undefined ? [] : [signal])
      return undefined
    })
    if (found !== undefined) return found.found
    if (performance.now() >= end || signal?.aborted) return undefined
  }
}

/** Resolves once there is a job, claimed or not. Fails with `not-found`. */
export const waitForAny = async (
  run: InSession,
  board: string,
  timeout: DurationInput | undefined,
  signal: AbortSignal | undefined,
): Promise<void> => {
  const ms = timeout === undefined ? Number.POSITIVE_INFINITY : milliseconds("timeout", timeout)
  const found = await waiting(run, ms, signal, async ({ reader }) => {
    for await (const known of reader.jobs()) return known
    return undefined
  })
  if (found !== undefined) return
  if (signal?.aborted) givenUp(board)
  throw noJob(board, ms)
}

/**
 * Waits until the job is consumed or trashed; resolves with false where the timeout is over first. Fails with
 * `invalid-input`, and with `not-found` for what is no id of a board. Nothing is kept of a job that was consumed, so that any
 * such id that is not on the board counts as one.
 */
export const waitForEnd = async (run: InSession, job: GivenJob, options: JobWaitOptions = {}): Promise<boolean> => {
  const { signal } = options
  const { timeoutMs, delayMs, multiplier, maxDelayMs: max } = jobWaitOf(options)
  if (boardPlaceOf(idOf(job)) === undefined) neverPosted(idOf(job))
  let pause = delayMs
  const end = performance.now() + timeoutMs
  for (;;) {
    const isOver = await run(async (session) => {
      await session.listen()
      const { entries, notifications } = session
      const { heardCount } = notifications
      const known = await entries.job(idOf(job))
      if (known === undefined) return true
      const left = Math.min(end - performance.now(), pause, max)
      if (left > 0) await notifications.wait(heardCount, left, signal === undefined ? [] : [signal])
      return false
    })
    if (isOver) return true
    if (performance.now() >= end || signal?.aborted) return false
    pause = Math.max(1, Math.min(pause * multiplier, max))
  }
}
