/** The query of the list of schedules. */

/** Which schedules to list. */
export interface ScheduleQuery {
  /** Schedules on a page, 1–1,000. Defaults to 100. */
  readonly limit?: number | undefined
  /** `next` of the page before. */
  readonly after?: string | undefined
}

export const SCHEDULE_QUERY = { limit: true, after: true } satisfies Record<keyof ScheduleQuery, true>
