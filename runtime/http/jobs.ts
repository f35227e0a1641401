/** Routes about many jobs: lists and bulk calls, by one filter of query parameters, and the same for dead letters. */

import { setTimeout as sleep } from "node:timers/promises"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { Client } from "../client/client.ts"
import { Fingerprint, IdEnd, type JobQuery, type NamedJobs } from "../client/job-query.ts"
import { CallboardError } from "../errors.ts"
import { rerunJob } from "../jobs/commands/rerun.ts"
import { BulkPlan, BulkReport, JobCount, JobList, summaryOf } from "../jobs/lists.ts"
import { Job, StateSchema } from "../jobs/responses.ts"
import { jobView } from "../jobs/view.ts"
import type { Total } from "../options/fields.ts"
import { refuseCursor, refuseInput } from "../options/refuse.ts"
import { compact, ifGiven } from "../protocol/compact.ts"
import { isTerminal, STATES, type State } from "../protocol/state.ts"
import { parseDuration, parseTime } from "../protocol/time.ts"
import { partly, reported } from "./decisions.ts"
import { recordOf, shownTo } from "./job-record.ts"
import {
  BUDGET_RANGE_MS,
  boundedRead,
  DECISION_BUDGET_MS,
  DEFAULT_BUDGET_MS,
  DEFAULT_PAGE,
  MAX_TOTAL,
  pageLimit,
  withReadDeadline,
} from "./limits.ts"
import { boolean, integer, list, text, type Values } from "./parameter.ts"
import { json } from "./response.ts"
import { type Route, type RouteRequest, route } from "./route.ts"

const Text = (description: string) =>
  Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(255)).annotate({ description })

const Limit = pageLimit("Most jobs to look at")

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

const isTime = Schema.makeFilter((given: string) => {
  const parsed = parseTime(given)
  return Result.isSuccess(parsed) || parsed.failure.message
})
const Time = (description: string) =>
  Schema.String.annotate({ description, examples: ["2026-01-31T08:00:00Z"] }).check(isTime)

const Budget = Schema.String.annotate({
  description: `Longest search: an answer that is cut is \`partial\`, and \`next\` goes on. ${DEFAULT_BUDGET_MS / 1000} s if nothing is said`,
  examples: ["50ms"],
}).check(
  Schema.makeFilter((given: string) => {
    const parsed = parseDuration(given)
    if (Result.isFailure(parsed)) return parsed.failure.message
    const [min, max] = BUDGET_RANGE_MS
    return (parsed.success >= min && parsed.success <= max) || `must be from ${min} ms to ${max / 1000} s`
  }),
)

const search = {
  budget: text(Budget),
  count: boolean(
    Schema.Boolean.annotate({
      description: `Also how many jobs match: \`total\`, counted up to ${MAX_TOTAL.toLocaleString("en")}, within the budget`,
    }),
  ),
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
  error: text(
    Fingerprint.annotate({
      description: "Fingerprint of the failure, the same for jobs that failed alike",
    }),
  ),
  idEnds: text(
    IdEnd.annotate({
      description: "The last eight characters of its id, where these are hexadecimal, in lower case or in capitals",
    }),
  ),
  since: text(Time("Submitted at this time or later: ISO 8601")),
  until: text(Time("Submitted before this time: ISO 8601")),
  ...page,
}

const { state: _state, root: _root, parent: _parent, group: _group, ...someFilter } = filter
const deadFilter = { ...someFilter, reason: text(Text("Why it was given up, as its `dead` says")) }

const deadQueryOf = ({ reason, ...given }: Values<typeof deadFilter>): JobQuery => ({
  ...queryOf(given),
  dead: true,
  ...compact({ reason }),
})

/** Checked parameters as the client's query. */
const queryOf = (given: Values<typeof filter>): JobQuery => ({
  limit: given.limit ?? DEFAULT_PAGE,
  ...compact({
    states: given.state,
    task: given.task,
    queue: given.queue,
    rootId: given.root,
    parentId: given.parent,
    group: given.group,
    error: given.error,
    idEnds: given.idEnds,
    since: ifGiven(given.since, timeOf),
    until: ifGiven(given.until, timeOf),
    after: given.cursor,
  }),
})

/** A time that the schema has checked. */
const timeOf = (text: string): Date => new Date(Result.getOrElse(parseTime(text), () => Number.NaN))

const budgetOf = (text: string | undefined): number =>
  Result.getOrElse(
    text === undefined ? Result.succeed(DEFAULT_BUDGET_MS) : parseDuration(text),
    () => DEFAULT_BUDGET_MS,
  )

/** Runs a query. A cursor that the client refuses as `after` is `cursor` here. */
const withCursor = async <T>(query: JobQuery, work: (query: JobQuery) => Promise<T>): Promise<T> => {
  try {
    return await work(query)
  } catch (cause) {
    if (!(cause instanceof CallboardError && cause.details.field === "after")) throw cause
    return refuseCursor("cursor")
  }
}

/** The filters that select jobs. `until` is not among them: alone it would select all jobs. */
const WHICH = ["state", "task", "queue", "root", "parent", "group", "error", "idEnds", "since"] as const

/**
 * The filter of a bulk call: it must say which jobs are meant, and may name only states that can be changed so. Fails
 * with `invalid-input`.
 */
const bulkQueryOf = (given: Values<typeof filter>, verb: string, states: ReadonlyArray<State>): JobQuery => {
  if (!WHICH.some((name) => given[name] !== undefined)) {
    const message = `say which jobs to ${verb}, by state, task, queue, root, parent, group, error or time; state=${states.join(",")} means all of them`
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

/** A page of a list, within the budget of its request. */
const listed = async (
  { c, caller, context }: RouteRequest,
  query: JobQuery,
  { budget, count = false }: Values<typeof search>,
): Promise<Response> => {
  const end = performance.now() + budgetOf(budget)
  return boundedRead(c.req.raw.signal, async (signal) => {
    const { client } = context
    const left = () => Math.max(end - performance.now(), 0) / 1_000
    const { jobs, ...page } = await withCursor({ ...query, budget: left(), signal }, (wanted) => client.jobs(wanted))
    const total = count ? { total: await totalOf(client, { ...query, budget: left(), signal }) } : {}
    return json<typeof JobList.Type>({ jobs: jobs.map((job) => summaryOf(shownTo(caller, job))), ...page, ...total })
  })
}

const totalOf = async (
  client: Client,
  { limit: _limit, after: _after, ...query }: JobQuery,
): Promise<typeof Total.Type> => {
  const { count, more = false } = await client.count(query, MAX_TOTAL)
  return count > MAX_TOTAL ? { value: MAX_TOTAL, relation: "gte" } : { value: count, relation: more ? "gte" : "eq" }
}

/** Most jobs that one address names: proxies take addresses of 8 kB. */
const MAX_NAMED = 100

/** Parameters of a decision about many jobs. */
const bulk = {
  ids: list(
    Schema.Array(Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(255)))
      .check(Schema.isMinLength(1), Schema.isMaxLength(MAX_NAMED))
      .annotate({ description: "Exactly these jobs, with commas between them, in place of filters" }),
  ),
  until: text(Time("Only jobs that were submitted before this time, and have not changed their state since: ISO 8601")),
  dryRun: boolean(Schema.Boolean.annotate({ description: "Change nothing, and answer what would be done" })),
  expect: integer(
    Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)).annotate({
      description:
        "How many jobs are meant: `matches-differ` where more than 1 % more or fewer match. Without `cursor`",
    }),
  ),
}

/** How far the number of matches may be from what the caller expects. */
const TOLERANCE = 0.01

/**
 * The moment up to which a dry run looks, once it has come. It is the next millisecond: jobs that changed in the one of the
 * call, right before it, are meant, and those that change after it are not. A later one that was given would take in jobs that
 * are submitted up to then.
 */
const dryRunUntil = async (given: Date | undefined): Promise<Date> => {
  const next = Date.now() + 1
  if (given !== undefined && given.getTime() < next) return given
  while (Date.now() < next) await sleep(1)
  return new Date(next)
}

const decided = async (
  { c, context: { client } }: RouteRequest,
  decision: "cancel" | "retry",
  query: JobQuery | NamedJobs,
  { dryRun = false, expect }: Values<typeof bulk>,
): Promise<Response> => {
  if ("ids" in query) return decidedNamed(client, decision, query, dryRun)
  if (dryRun && query.after !== undefined)
    refuseInput("cursor", "is not for a dry run, which looks at all jobs that match")
  const budget = DEFAULT_BUDGET_MS / 1_000
  const { limit: _limit, after: _after, ...which } = query
  if (dryRun) {
    const until = await dryRunUntil(query.until)
    const plan = await boundedRead(c.req.raw.signal, (signal) =>
      client.planAll(decision, { ...which, until, budget, signal }),
    )
    return json<typeof BulkPlan.Type>({ ...plan, until: until.toISOString() })
  }
  if (expect !== undefined && query.after === undefined) {
    const total = await boundedRead(c.req.raw.signal, (signal) => totalOf(client, { ...which, budget, signal }))
    const isMore = total.relation === "gte" && expect >= total.value
    if (!isMore && Math.abs(total.value - expect) > expect * TOLERANCE) {
      const message = `${expect} jobs were expected, and ${total.value} match now: look again what is meant`
      throw new CallboardError("matches-differ", message, { field: "expect" })
    }
  }
  const report = await withCursor({ ...query, budget: DECISION_BUDGET_MS / 1_000 }, (wanted) =>
    decision === "cancel" ? client.cancelAll(wanted) : client.retryAll(wanted),
  )
  return reported(report)
}

const decidedNamed = async (
  client: Client,
  decision: "cancel" | "retry",
  { until: given, ...query }: NamedJobs,
  dryRun: boolean,
): Promise<Response> => {
  if (dryRun) {
    const until = await dryRunUntil(given)
    const plan = await withReadDeadline(client.planAll(decision, { ...query, until }))
    return json<typeof BulkPlan.Type>({ ...plan, until: until.toISOString() })
  }
  const named = { ...query, ...compact({ until: given }) }
  return reported(decision === "cancel" ? await client.cancelAll(named) : await client.retryAll(named))
}

/** The parameters that may stand beside `ids`. */
const BESIDE_IDS: ReadonlySet<string> = new Set(["ids", "until", "dryRun"])

/** The jobs that a bulk call names; `undefined` where it has filters. Fails with `invalid-input` where it has both. */
const namedIn = ({ ids, until, ...given }: Values<typeof bulk>, dead: boolean): NamedJobs | undefined => {
  if (ids === undefined) return undefined
  const other = Object.entries(given).find(([name, value]) => value !== undefined && !BESIDE_IDS.has(name))
  if (other !== undefined) refuseInput(other[0], "say either ids or filters: ids are exactly the jobs that are meant")
  return { ids, dead, ...compact({ until: ifGiven(until, timeOf) }) }
}

const FROZEN =
  "With `until` (of a dry run, say) only those are meant that match since then. A small `limit` at first tries it with a few."

const BULK = [
  {
    status: 200,
    description: "What was changed, and nothing is left; with `dryRun` what would be done",
    schema: Schema.Union([BulkReport, BulkPlan]),
  },
  partly(BulkReport),
]
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
    handle: async ({ c, context, query }) => {
      const { limit: _page, ...wanted } = queryOf(query)
      const budget = DEFAULT_BUDGET_MS / 1_000
      const { count, more = false } = await boundedRead(c.req.raw.signal, (signal) =>
        context.client.count({ ...wanted, budget, signal }),
      )
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
    query: { ...filter, ...search },
    responses: [LIST],
    handle: (request) => listed(request, queryOf(request.query), request.query),
  }),
  route({
    method: "POST",
    path: "/v1/jobs/cancel",
    operation: "cancelJobs",
    group: "Jobs",
    summary: "Cancel many jobs",
    description: `Cancels up to \`limit\` jobs that match; at least one filter must be given. Without \`state\`: jobs that are ${CANCELLABLE.join(", ")}. While the answer is 202 (\`more\` is true), call again with \`cursor\`. ${FROZEN}`,
    scope: "operate",
    query: { ...filter, ...bulk },
    responses: BULK,
    problems: ["matches-differ"],
    handle: (request) =>
      decided(
        request,
        "cancel",
        namedIn(request.query, false) ?? bulkQueryOf(request.query, "cancel", CANCELLABLE),
        request.query,
      ),
  }),
  route({
    method: "POST",
    path: "/v1/jobs/retry",
    operation: "retryJobs",
    group: "Jobs",
    summary: "Run many ended jobs again",
    description: `Runs up to \`limit\` jobs that match again; at least one filter must be given. Without \`state\`: jobs that are ${RETRYABLE.join(", ")}. While the answer is 202 (\`more\` is true), call again with \`cursor\`. ${FROZEN}`,
    scope: "operate",
    query: { ...filter, ...bulk },
    responses: BULK,
    problems: ["matches-differ"],
    handle: (request) =>
      decided(
        request,
        "retry",
        namedIn(request.query, false) ?? bulkQueryOf(request.query, "retry", RETRYABLE),
        request.query,
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
    query: { ...deadFilter, ...search },
    responses: [LIST],
    handle: (request) => listed(request, deadQueryOf(request.query), request.query),
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
      "Runs up to `limit` dead letters that match again; without a filter, all of them. While the answer is 202 (`more` is true), call again with `cursor`.",
    scope: "operate",
    query: { ...deadFilter, ...bulk },
    responses: BULK,
    problems: ["matches-differ"],
    handle: (request) =>
      decided(request, "retry", namedIn(request.query, true) ?? deadQueryOf(request.query), request.query),
  }),
]
