/** Waits between two tries of something that a transport has not answered. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"

export const FIRST_WAIT_MS = 100
const MAX_WAIT_MS = 5_000

/** While the transport is away: waits that double, up to 5 seconds. */
export const OUTAGE = Schedule.min([Schedule.exponential(FIRST_WAIT_MS), Schedule.spaced(MAX_WAIT_MS)])

/** The same waits, each of which ends as soon as `untilConnected` resolves, which it does after that many milliseconds. */
export const untilConnectedEach = (
  waits: Schedule.Schedule<unknown>,
  untilConnected: (ms: number) => Promise<void>,
): Schedule.Schedule<unknown> =>
  Schedule.modifyDelay(waits, ({ duration }) =>
    Effect.as(
      Effect.promise(() => untilConnected(Duration.toMillis(duration))),
      0,
    ),
  )
