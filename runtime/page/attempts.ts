/** Computes how the attempts of a job are drawn, and how wide each part of them is. Pure. */
import type { Attempt, FullJob } from "../jobs/responses.ts"

/** Times are milliseconds since the epoch. The last attempt may still wait or run. */
export interface DrawnAttempt {
  readonly attempt: number
  readonly worker: string | undefined
  /**
   * When the attempt before it ended and the back-off began. Absent for the first attempt of a run, or where it is not
   * stored.
   */
  readonly freed: number | undefined
  /** When the attempt entered its queue, started and ended. Absent where that is not stored, or not yet the case. */
  readonly queued: number | undefined
  readonly started: number | undefined
  readonly ended: number | undefined
  /**
   * How the attempt ended: a state, `retrying` where another attempt follows, `suspended` where it continues later, `lost` or
   * `handed-back`; before its end `waiting` or `running`.
   */
  readonly outcome: string
  readonly error: Attempt["error"]
}

/** The states of a job that has ended. */
export const ENDED = ["succeeded", "failed", "cancelled", "expired"]

const timeOf = (at: string | undefined): number | undefined => (at === undefined ? undefined : Date.parse(at))

type JobTimes = Pick<FullJob, "attempts" | "run" | "state" | "times">

/** The attempts, oldest first, and the one that the job waits for. */
export const attemptsOf = ({ attempts, run, state, times }: JobTimes): ReadonlyArray<DrawnAttempt> => {
  const shown = attempts.map((each, at) => {
    const before = attempts[at - 1]
    const isFollowed = attempts[at + 1]?.run === each.run || (each.run === run && !ENDED.includes(state))
    const outcome = each.outcome ?? "running"
    return {
      attempt: each.attempt,
      worker: each.worker,
      freed: before?.run === each.run ? timeOf(before.ended) : undefined,
      queued: timeOf(each.queued),
      started: timeOf(each.started),
      ended: timeOf(each.ended),
      outcome: outcome === "failed" && isFollowed ? "retrying" : outcome,
      error: each.error,
    }
  })
  if (ENDED.includes(state) || shown.at(-1)?.outcome === "running") return shown
  const last = attempts.at(-1)?.run === run ? shown.at(-1) : undefined
  const waiting = {
    attempt: (last?.attempt ?? 0) + (last?.outcome === "suspended" ? 0 : 1),
    worker: undefined,
    freed: last?.ended,
    queued: timeOf(state === "scheduled" ? times.due : (times.enqueued ?? times.submitted)),
    started: undefined,
    ended: undefined,
    outcome: "waiting",
    error: undefined,
  }
  return [...shown, waiting]
}

/** The parts of an attempt as fractions of the whole width. */
export type Span = readonly [from: number, to: number]

export interface Drawn {
  /** The back-off after the attempt before, the wait in the queue, and the run. */
  readonly off: Span
  readonly wait: Span
  readonly run: Span
}

/** Duration of each part so far, in milliseconds; `undefined` where it is not stored or there is no such part. */
export const lengthsOf = ({ freed, queued, started, ended }: DrawnAttempt, now: number) => {
  const until = (from: number | undefined, to: number): number | undefined =>
    from === undefined ? undefined : Math.max(0, to - from)
  return {
    off: until(freed, queued ?? started ?? now),
    wait: until(queued, started ?? now),
    run: until(started, ended ?? now),
  }
}

/**
 * Widths grow with the logarithm: a second has 0.4 of the width of ten seconds and 0.3 of that of a minute, so that
 * short attempts are visible beside hours.
 */
const widthOf = (ms = 0): number => Math.log2(1 + ms / 250)

/** The position of each attempt, one after the other. `now`: the end of a part that is not over. */
export const drawn = (attempts: ReadonlyArray<DrawnAttempt>, now: number): ReadonlyArray<Drawn> => {
  const widths = attempts.map((attempt) => {
    const { off, wait, run } = lengthsOf(attempt, now)
    return [widthOf(off), widthOf(wait), run === undefined ? 0 : Math.max(0.4, widthOf(run))] as const
  })
  const total = Math.max(
    1,
    widths.reduce((sum, [off, wait, run]) => sum + off + wait + run, 0),
  )
  let at = 0
  const next = (width: number): Span => {
    const from = at / total
    at += width
    return [from, at / total]
  }
  return widths.map(([off, wait, run]) => ({ off: next(off), wait: next(wait), run: next(run) }))
}
