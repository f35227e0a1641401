/** Routes about many jobs: lists, decisions by the same filter, and the same for dead letters. */
import type { JobPage } from "../client/client.ts"
import { CallboardError } from "../errors.ts"
import type { BulkReport as Report } from "../jobs/commands/bulk.ts"
import { rerunJob } from "../jobs/commands/rerun.ts"
import { Job } from "../jobs/responses.ts"
import { jobView } from "../jobs/view.ts"
import { isTerminal, STATES } from "../protocol/state.ts"
import { bulkQueryOf, filter, page, queryOf, taskFilter, withCursor } from "./filter.ts"
import { recordOf } from "./job-record.ts"
import { withReadDeadline } from "./limits.ts"
import { json } from "./response.ts"
import { type Route, route } from "./route.ts"
import { BulkReport, JobList, summaryOf } from "./schema.ts"

const CANCELLABLE = STATES.filter((state) => !isTerminal(state))
const RETRYABLE = ["failed", "cancelled", "expired"] as const

export const listResponse = ({ jobs, next }: JobPage): Response =>
  json<typeof JobList.Type>({ jobs: jobs.map(summaryOf), ...(next === undefined ? {} : { next }) })

export const bulkResponse = (report: Report): Response =>
  json<typeof BulkReport.Type>({ ...report, more: report.next !== undefined })

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
    responses: [LIST],
    handle: async ({ context, query }) =>
      listResponse(await withReadDeadline(withCursor(queryOf(query), (wanted) => context.client.jobs(wanted)))),
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
    responses: [BULK],
    handle: async ({ context, query }) =>
      bulkResponse(
        await withCursor(bulkQueryOf(query, "cancel", CANCELLABLE), (wanted) => context.client.cancelAll(wanted)),
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
    responses: [BULK],
    handle: async ({ context, query }) =>
      bulkResponse(
        await withCursor(bulkQueryOf(query, "retry", RETRYABLE), (wanted) => context.client.retryAll(wanted)),
      ),
  }),
]

export const deadRoutes: ReadonlyArray<Route> = [
  route({
    method: "GET",
    path: "/v1/dead",
    operation: "listDead",
    group: "Dead letters",
    summary: "Dead letters, newest first",
    description: "Tasks that nobody serves, that cannot be decoded, or that end their worker: `dead` says why.",
    scope: "read",
    query: { ...taskFilter, ...page },
    responses: [LIST],
    handle: async ({ context, query }) =>
      listResponse(
        await withReadDeadline(withCursor({ ...queryOf(query), dead: true }, (wanted) => context.client.jobs(wanted))),
      ),
  }),
  route({
    method: "POST",
    path: "/v1/dead/{id}/redrive",
    operation: "redriveJob",
    group: "Dead letters",
    summary: "Run a dead letter again",
    scope: "admin",
    responses: [{ status: 200, description: "The job", schema: Job }],
    problems: ["job-exists", "gone", "unsupported"],
    handle: async ({ context, id }) => {
      const record = await recordOf(context, id)
      if (record.dead === undefined) {
        throw new CallboardError("not-found", `job ${id} is ${record.state}, and no dead letter`, { id })
      }
      return json<typeof Job.Type>(jobView(await rerunJob(context.client.connection, id)))
    },
  }),
  route({
    method: "POST",
    path: "/v1/dead/redrive",
    operation: "redriveJobs",
    group: "Dead letters",
    summary: "Run many dead letters again",
    description:
      "Runs up to `limit` dead letters that match again; without a filter, all of them. While `more` is true, call again with `cursor`.",
    scope: "admin",
    query: { ...taskFilter, ...page },
    responses: [BULK],
    handle: async ({ context, query }) =>
      bulkResponse(await withCursor({ ...queryOf(query), dead: true }, (wanted) => context.client.retryAll(wanted))),
  }),
]
