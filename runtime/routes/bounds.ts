/** Bounds of the HTTP interface that callers have to know. */
import * as Schema from "effect/Schema"

/** Most tasks in one array. */
export const MAX_BATCH = 1_000

/** Most jobs on a page, and in one bulk call. */
export const MAX_PAGE = 1_000
export const DEFAULT_PAGE = 100

/** How many items a page may have, 1 to `max`. */
export const pageLimit = (description: string, max = MAX_PAGE) =>
  Schema.Int.check(
    Schema.isBetween({ minimum: 1, maximum: max }, { message: `must be a whole number from 1 to ${max}` }),
  ).annotate({ description, default: DEFAULT_PAGE })

/** Longest wait for a result. */
export const MAX_WAIT_MS = 60_000

/** Longest wait for a transport that is asked about something. */
export const READ_DEADLINE_MS = 5_000

/** How long a list searches, unless its request says otherwise; half a second of the deadline is left for everything else. */
export const DEFAULT_BUDGET_MS = READ_DEADLINE_MS - 500

/** The shortest and the longest search that a request may ask for, in milliseconds. */
export const BUDGET_RANGE_MS = [10, DEFAULT_BUDGET_MS] as const

/** How long a call that changes many jobs goes on, unless its request says otherwise: many proxies wait half a minute. */
export const DECISION_BUDGET_MS = 10_000

/** The shortest and the longest time that a request may ask for, in milliseconds. */
export const DECISION_RANGE_MS = [10, 50_000] as const

/** Most jobs that are counted for a list. */
export const MAX_TOTAL = 10_000
