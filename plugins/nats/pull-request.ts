/** What a consumer is asked, as the server reads it. */

/** How often a parked request says that it lives; less often where there are many. */
const BEAT_MS = 1_000
const BEAT_PER_LANE_MS = 50

/** How long the server keeps a parked request: longer than most pulls wait, so that the next one finds it parked. */
export const PARK_MS = 20_000

/** How long the server keeps a look, in nanoseconds; twice as long after each that it was too late for. */
const LOOK_NS = 1_000_000

const encoder = new TextEncoder()

export const beatOf = (lanes: number): number => Math.min(Math.max(BEAT_MS, lanes * BEAT_PER_LANE_MS), PARK_MS / 4)

/** For one task, whenever there is one. */
export const parking = (beat: number): Uint8Array =>
  encoder.encode(`{"batch":1,"expires":${PARK_MS}000000,"idle_heartbeat":${beat}000000}`)

/**
 * For what there is, as far as the consumer has heard: it says 404 without looking, and hears of a message only some time
 * after the one who published it (nats-server 2.15.1: 40 ms on a busy machine).
 */
export const fetching = (batch: number): Uint8Array => encoder.encode(`{"batch":${batch},"no_wait":true}`)

/**
 * For what there is, all that was acknowledged before included. A request that may wait makes the consumer look into the
 * stream; with nothing there, the heartbeat, long overdue by then, says so at once. Ends as 408 without a heartbeat when
 * the consumer was too late to look.
 */
export const looking = (batch: number, missed: number): Uint8Array =>
  encoder.encode(`{"batch":${batch},"no_wait":true,"expires":${LOOK_NS * 2 ** missed},"idle_heartbeat":1}`)
