/**
 * The states of a job, and how it moves between them.
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

const TERMINAL: ReadonlySet<State> = new Set(["succeeded", "failed", "cancelled", "expired"])

/** Whether a run in this state has ended. */
export const isTerminal = (state: State): boolean => TERMINAL.has(state)

/** What is said of a value that is no state. */
export const noState = (): string => `no such state; the states are ${STATES.join(", ")}`

export const isState = (text: unknown): text is State => (STATES as ReadonlyArray<unknown>).includes(text)

/** The name of a state in Celery. */
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

/** Why a task is a dead letter whose id is that of another job. */
export const DUPLICATE_ID = "duplicate-id"
