/** The attempts of a job, from what is kept of its story, and how long each part of them is drawn. Pure. */
import type { Transition } from "./api.ts"

export interface Attempt {
  readonly attempt: number
  readonly worker: string | undefined
  /** Since when it waited, when it was started, and when it ended: milliseconds. Absent: not kept, or not yet. */
  readonly queued: number | undefined
  readonly started: number | undefined
  readonly ended: number | undefined
  /** How it ended: a state, `retrying`, `lost` for one whose worker was lost; `waiting` and `running` before. */
  readonly outcome: string
  readonly reason: string | undefined
  readonly error: { readonly name: string; readonly message: string } | undefined
  /** The one that waits may start at this time. */
  readonly due: number | undefined
}

const ENDED = ["succeeded", "failed", "cancelled", "expired"]

/** How a started attempt ended, by the state that came next. */
const outcomeOf = ({ state, reason, error }: Transition): string =>
  ENDED.includes(state) ? state : error !== undefined ? "retrying" : reason?.includes("lost") ? "lost" : "handed back"

/** The attempts, oldest first. The last one may still wait, or run. */
export const attemptsOf = (transitions: ReadonlyArray<Transition>): ReadonlyArray<Attempt> => {
  const found: Array<Attempt> = []
  let waiting: Transition | undefined
  let running: Transition | undefined
  const began = (transition: Transition | undefined): number | undefined =>
    transition === undefined ? undefined : Date.parse(transition.at)
  for (const transition of transitions) {
    const at = Date.parse(transition.at)
    if (running !== undefined) {
      found.push({
        attempt: running.attempt ?? found.length + 1,
        worker: running.worker,
        queued: began(waiting),
        started: Date.parse(running.at),
        ended: at,
        outcome: outcomeOf(transition),
        reason: transition.reason,
        error: transition.error,
        due: undefined,
      })
      running = undefined
      waiting = undefined
    }
    if (transition.state === "started") running = transition
    else if (ENDED.includes(transition.state)) waiting = undefined
    else if (waiting === undefined || transition.state === "scheduled") waiting = waiting ?? transition
    if (transition.state === "scheduled" && waiting !== undefined) waiting = { ...waiting, ...dueOf(transition) }
  }
  if (running !== undefined || waiting !== undefined) {
    found.push({
      attempt: running?.attempt ?? (found.at(-1)?.attempt ?? 0) + 1,
      worker: running?.worker,
      queued: began(waiting),
      started: began(running),
      ended: undefined,
      outcome: running === undefined ? "waiting" : "running",
      reason: waiting?.reason,
      error: undefined,
      due: running === undefined && waiting?.due !== undefined ? Date.parse(waiting.due) : undefined,
    })
  }
  return found
}

const dueOf = ({ due, reason }: Transition) => ({
  ...(due === undefined ? {} : { due }),
  ...(reason === undefined ? {} : { reason }),
})

/** A part of an attempt, as parts of the whole width. */
export interface Drawn {
  readonly wait: readonly [from: number, to: number]
  readonly run: readonly [from: number, to: number]
}

/** A second is drawn a third as long as ten, and a quarter as long as a minute: attempts of a second are seen beside hours. */
const lengthOf = (ms: number): number => Math.log2(1 + Math.max(0, ms) / 250)

/** Where each attempt is drawn, one after the other. `now` ends what goes on. */
export const drawn = (attempts: ReadonlyArray<Attempt>, now: number): ReadonlyArray<Drawn> => {
  const lengths = attempts.map(({ queued, started, ended, due }) => {
    const begin = queued ?? started ?? now
    return {
      wait: lengthOf((started ?? due ?? now) - begin),
      run: started === undefined ? 0 : Math.max(0.4, lengthOf((ended ?? now) - started)),
    }
  })
  const total = Math.max(
    1,
    lengths.reduce((sum, { wait, run }) => sum + wait + run, 0),
  )
  let at = 0
  return lengths.map(({ wait, run }) => {
    const from = at / total
    const middle = (at + wait) / total
    at += wait + run
    return { wait: [from, middle], run: [middle, at / total] }
  })
}
