/** Bounds of the HTTP interface that no setting changes. `/v1/info` names those that a client must know. */
import { within } from "../async/timers.ts"
import { TransportError } from "../transport/mod.ts"

/** Most tasks in one array. */
export const MAX_BATCH = 1_000

/** An array of tasks may be this many times as large as one task. */
export const BATCH_BODY_FACTOR = 16

/** Most jobs on a page, and in one bulk call. */
export const MAX_PAGE = 1_000
export const DEFAULT_PAGE = 100

/** Longest wait for a result. */
export const MAX_WAIT_MS = 60_000

/** Most bytes of bodies that are read or handled at a time. */
export const MAX_BODY_BYTES = 64 * 1024 * 1024

/** Longest time that a body may take to arrive. */
export const BODY_DEADLINE_MS = 30_000

/** Most open streams of events, in all and for each token. */
export const MAX_STREAMS = 1_000
export const MAX_STREAMS_PER_TOKEN = 100

export const IDEMPOTENCY_TTL_MS = 86_400_000

/**
 * A submission is answered within two seconds, whatever the transport does; half a second of that is left for
 * everything else.
 */
export const SUBMIT_DEADLINE_MS = 1_500

/** Longest wait for a transport that is asked about something. */
export const READ_DEADLINE_MS = 5_000

/** Proxies cut streams on which nothing happens; most of them after a minute, some after half of one. */
export const KEEP_ALIVE_MS = 15_000

/**
 * Bounds a question to the transport, so that the request ends also while the transport is away. Fails with
 * `unavailable`.
 */
export const withReadDeadline = <T>(work: Promise<T>): Promise<T> =>
  within(
    READ_DEADLINE_MS,
    work,
    () => new TransportError("unavailable", `the transport did not answer within ${READ_DEADLINE_MS / 1000} s`),
  )
