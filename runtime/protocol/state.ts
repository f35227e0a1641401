/**
 * The states of a job and the one function that moves it between them.
 *
 * ```
 *            ┌──────────┐  release   ┌───────────┐   due    ┌────────┐
 *  submit ──▶│ deferred │───────────▶│ scheduled │─────────▶│ queued │◀── submit
 *            └──────────┘            └───────────┘          └────────┘
 *                                          ▲ retry              │ start   ▲ hand back, lease lost
 *                                          │                    ▼         │
 *                                          └────────────────┌─────────┐───┘
 *                                                           │ started │
 *                                                           └─────────┘
 *                                                               ▼
 *                                        succeeded · failed · cancelled · expired      (final within a run)
 * ```
 */
import { Result } from "effect"

export const STATES = [
  "deferred",
  "scheduled",
  "queued",
  "started",
  "succeeded",
  "failed",
  "cancelled",
  "expired",
] as const

export type State = (typeof STATES)[number]

/** What can happen to a job. */
export type Happening =
  | "release" // all jobs it waited for have ended
  | "due" // its time has come
  | "start" // an attempt begins
  | "hand-back" // given back by a worker that stops, or found again after its worker died
  | "retry" // the application asked for another attempt, later
  | "succeed"
  | "fail"
  | "cancel"
  | "expire"
  | "rerun" // begins the next run

/** A happening that the state of the job does not allow. */
export interface IllegalTransition {
  readonly _tag: "IllegalTransition"
  readonly from: State
  readonly happening: Happening
  readonly message: string
}

const TABLE: Readonly<Record<State, Readonly<Partial<Record<Happening, State>>>>> = {
  deferred: { release: "queued", cancel: "cancelled", expire: "expired", fail: "failed" },
  scheduled: { due: "queued", start: "started", cancel: "cancelled", expire: "expired", fail: "failed" },
  queued: { start: "started", cancel: "cancelled", expire: "expired", fail: "failed" },
  started: {
    start: "started",
    "hand-back": "queued",
    retry: "scheduled",
    succeed: "succeeded",
    fail: "failed",
    cancel: "cancelled",
    expire: "expired",
  },
  succeeded: { rerun: "queued" },
  failed: { rerun: "queued" },
  cancelled: { rerun: "queued" },
  expired: { rerun: "queued" },
}

/** Whether a run that is in this state is over. */
export const isTerminal = (state: State): boolean => TABLE[state].rerun !== undefined

export const isState = (text: unknown): text is State => (STATES as ReadonlyArray<unknown>).includes(text)

/** The state after a happening, or why it may not happen. A terminal state is left by `rerun` only. */
export const transition = (from: State, happening: Happening): Result.Result<State, IllegalTransition> => {
  const to = TABLE[from][happening]
  return to === undefined
    ? Result.fail({
        _tag: "IllegalTransition",
        from,
        happening,
        message: `A job that is ${from} cannot ${happening}.`,
      })
    : Result.succeed(to)
}

/** The word that a Celery client knows for a state. */
export const celeryState = (state: State, retries = 0): string => {
  switch (state) {
    case "deferred":
    case "queued":
      return "PENDING"
    case "scheduled":
      return retries > 0 ? "RETRY" : "PENDING"
    case "started":
      return "STARTED"
    case "succeeded":
      return "SUCCESS"
    case "failed":
      return "FAILURE"
    case "cancelled":
    case "expired":
      return "REVOKED"
  }
}
