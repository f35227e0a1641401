/** Routes about many jobs: lists and bulk calls, by one filter of query parameters, and the same for dead letters. */

import * as Schema from "effect/Schema"
import type { JobPage } from "../client/job-query.ts"
import { CallboardError } from "../errors.ts"
import type { BulkReport as Report } from "../jobs/commands/decide.ts"
import { rerunJob } from "../jobs/commands/rerun.ts"
import { Job, StateSchema } from "../jobs/responses.ts"
import { jobView } from "../jobs/view.ts"
import { isTerminal, STATES, type State } from "../protocol/state.ts"
import type { RecordQuery } from "../transport/lift/transport.ts"
import { TransportError } from "../transport/mod.ts"
import type { Caller } from "./access.ts"
import { recordOf, shownTo } from "./job-record.ts"
import { DEFAULT_PAGE, MAX_PAGE, withReadDeadline } from "./limits.ts"
import { integer, list, text, type Values } from "./parameter.ts"
import { json } from "./response.ts"
import { type Route, route } from "./route.ts"
import { BulkReport, JobCount, JobList, summaryOf } from "./schema.ts"

const Text = (description: string) =>
  Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(255)).annotate({ description })

const Limit = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_PAGE })).annotate({
  description: "Most jobs to look at",
  default: DEFAULT_PAGE,
})

const page = {
  limit: integer(Limit),
  cursor: text(
    Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(1024)).annotate({
      description: "Where to go on: the `next` of the page before",
    }),
  ),
}

const taskFilter = {
  task: text(Text("As it was submitted, exactly: `text.count`")),
  queue: text(Text("Name of the queue")),
}

const filter = {
  state: list(
    Schema.Array(StateSchema)
      .check(Schema.isMinLength(1), Schema.isMaxLength(20))
      .annotate({ description: "Any of these states, with commas between them" }),
  ),
  ...taskFilter,
  root: text(Text("Id of the first job of a workflow")),
  parent: text(Text("Id of the job that submitted it")),
  group: text(Text("The `group` of the submission")),
  ...page,
}

/** Checked parameters as the transport's query. */
const queryOf = (given: Values<typeof filter>): RecordQuery => ({
  limit: given.limit ?? DEFAULT_PAGE,
  ...(given.state === undefined ? {} : { states: given.state }),
  ...(given.task === undefined ? {} : { task: given.task }),
  ...(given.queue === undefined ? {} : { queue: given.queue }),
  ...(given.root === undefined ? {} : { rootId: given.root }),
  ...(given.parent === undefined ? {} : { parentId: given.parent }),
  ...(given.group === undefined ? {} : { group: given.group }),
  ...(given.cursor === undefined ? {} : { after: given.cursor }),
})

/** Runs a query. Fails with `invalid-input` naming `cursor` where the transport cannot read the cursor. */
const withCursor = async <T>(query: RecordQuery, work: (query: RecordQuery) => Promise<T>): Promise<T> => {
  try {
    return await work(query)
  } catch (cause) {
    if (query.after === undefined || !(cause instanceof TransportError) || cause.reason !== "invalid") throw cause
    throw new CallboardError("invalid-input", "cursor: is none of this list; begin without one", { field: "cursor" })
  }
}

/**
 * The filter of a bulk call: it must say which jobs are meant, and may name only states that can be changed so. Fails
 * with `invalid-input`.
 */
const bulkQueryOf = (given: Values<typeof filter>, verb: string, states: ReadonlyArray<State>): RecordQuery => {
  const { limit: _limit, cursor: _cursor, ...which } = given
  if (Object.keys(which).length === 0) {
    const message = `say which jobs to ${verb}, by state, task, queue, root, parent or group; state=${states.join(",")} means all of them`
    throw new CallboardError("invalid-input", message, { field: "state" })
  }
  const wrong = given.state?.find((state) => !states.includes(state))
  if (wrong !== undefined) {
    const message = `state: to ${verb} is for jobs that are ${states.join(", ")}, not ${wrong}`
    throw new CallboardError("invalid-input", message, { field: "state" })
  }
  return { ...queryOf(given), states: given.state ?? states }
}

const CANCELLABLE = STATES.filter((state) => !isTerminal(state))
const RETRYABLE = ["failed", "cancelled", "expired"] as const

const listResponse = (caller: Caller, { jobs, next }: JobPage): Response =>
  json<typeof JobList.Type>({
    jobs: jobs.map((job) => summaryOf(shownTo(caller, job))),
    ...(next === undefined ? {} : { next }),
  })

const bulkResponse = (report: Report): Response =>
  json<typeof BulkReport.Type>({ ...report, more: report.next !== undefined })

const BULK = { status: 200, description: "What was changed, and whether more is left", schema: BulkReport }
export const LIST = { status: 200, description: "A page of jobs", schema: JobList }

const { limit: _limit, cursor: _cursor, ...countFilter } = filter

export const jobsRoutes: ReadonlyArray<Route> = [
  route({
    method: "GET",
    path: "/v1/count",
    operation: "countJobs",
    group: "Jobs",
    summary: "How many jobs there are",
    description:
      "By `state` and `queue` alone the number is exact, but for jobs that have succeeded: they, and jobs by any other filter, are counted up to 1,000, and then `more` is true.",
    scope: "read",
    query: countFilter,
    responses: [{ status: 200, description: "The number", schema: JobCount }],
    handle: async ({ context, query }) => {
      const { limit: _page, ...wanted } = queryOf(query)
      const { count, more = false } = await withReadDeadline(context.client.count(wanted))
      return json<typeof JobCount.Type>({ count, more })
    },
  }),
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
    handle: async ({ caller, context, query }) =>
      listResponse(caller, await withReadDeadline(withCursor(queryOf(query), (wanted) => context.client.jobs(wanted)))),
  }),
  route({
    method: "POST",
    path: "/v1/jobs/cancel",
    operation: "cancelJobs",
    group: "Jobs",
    summary: "Cancel many jobs",
    description: `Cancels up to \`limit\` jobs that match; at least one filter must be given. Without \`state\`: jobs that are ${CANCELLABLE.join(", ")}. While \`more\` is true, call again with \`cursor\`.`,
    scope: "operate",
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
    scope: "operate",
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
    handle: async ({ caller, context, query }) =>
      listResponse(
        caller,
        await withReadDeadline(withCursor({ ...queryOf(query), dead: true }, (wanted) => context.client.jobs(wanted))),
      ),
  }),
  route({
    method: "POST",
    path: "/v1/dead/{id}/redrive",
    operation: "redriveJob",
    group: "Dead letters",
    summary: "Run a dead letter again",
    scope: "operate",
    responses: [{ status: 200, description: "The job", schema: Job }],
    problems: ["job-exists", "gone", "unsupported"],
    handle: async ({ caller, context, id }) => {
      const record = await recordOf(context, id)
      if (record.dead === undefined) {
        throw new CallboardError("not-found", `job ${id} is ${record.state}, and no dead letter`, { id })
      }
      return json<typeof Job.Type>(shownTo(caller, jobView(await rerunJob(context.client.connection, id))))
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
    scope: "operate",
    query: { ...taskFilter, ...page },
    responses: [BULK],
    handle: async ({ context, query }) =>
      bulkResponse(await withCursor({ ...queryOf(query), dead: true }, (wanted) => context.client.retryAll(wanted))),
  }),
]
