/** Routes about many jobs: lists, and decisions by the same filter. */

import type { JobPage } from "../client/client.ts"
import type { BulkReport as Report } from "../jobs/commands/bulk.ts"
import { isTerminal, STATES } from "../protocol/state.ts"
import { answer } from "./answer.ts"
import { reading } from "./deadline.ts"
import { bulkQueryOf, filter, queryOf, withCursor } from "./filter.ts"
import { type Route, route } from "./route.ts"
import { BulkReport, JobList } from "./schema.ts"
import { summaryOf } from "./summary.ts"

const CANCELLABLE = STATES.filter((state) => !isTerminal(state))
const RETRYABLE = ["failed", "cancelled", "expired"] as const

export const listAnswer = ({ jobs, next }: JobPage): Response =>
  answer<typeof JobList.Type>({ jobs: jobs.map(summaryOf), ...(next === undefined ? {} : { next }) })

export const bulkAnswer = (report: Report): Response =>
  answer<typeof BulkReport.Type>({ ...report, more: report.next !== undefined })

export const BULK = { status: 200, description: "What was changed, and whether more is left", schema: BulkReport }
export const LIST = { status: 200, description: "A page of jobs", schema: JobList }

export const jobsRoutes: ReadonlyArray<Route> = [
  route({
    method: "GET",
    path: "/v1/jobs",
    operation: "listJobs",
    group: "Jobs",
    summary: "Jobs, newest first",
    description: "Without what may be long: ask for a job by its id to see its result and transitions.",
    scope: "read",
    query: filter,
    answers: [LIST],
    handle: async ({ desk, query }) =>
      listAnswer(await reading(withCursor(queryOf(query), (wanted) => desk.client.jobs(wanted)))),
  }),
  route({
    method: "POST",
    path: "/v1/jobs/cancel",
    operation: "cancelJobs",
    group: "Jobs",
    summary: "Cancel many jobs",
    description: `Cancels up to \`limit\` jobs that match; at least one filter must be given. Without \`state\`: jobs that are ${CANCELLABLE.join(", ")}. While \`more\` is true, call again with \`cursor\`.`,
    scope: "admin",
    query: filter,
    answers: [BULK],
    handle: async ({ desk, query }) =>
      bulkAnswer(
        await withCursor(bulkQueryOf(query, "cancel", CANCELLABLE), (wanted) => desk.client.cancelAll(wanted)),
      ),
  }),
  route({
    method: "POST",
    path: "/v1/jobs/retry",
    operation: "retryJobs",
    group: "Jobs",
    summary: "Run many ended jobs again",
    description: `Runs up to \`limit\` jobs that match again; at least one filter must be given. Without \`state\`: jobs that are ${RETRYABLE.join(", ")}. While \`more\` is true, call again with \`cursor\`.`,
    scope: "admin",
    query: filter,
    answers: [BULK],
    handle: async ({ desk, query }) =>
      bulkAnswer(await withCursor(bulkQueryOf(query, "retry", RETRYABLE), (wanted) => desk.client.retryAll(wanted))),
  }),
]
