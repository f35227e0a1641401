/** Routes about many jobs: lists and bulk calls, by one filter of query parameters, and the same for dead letters. */

import { setTimeout as sleep } from "node:timers/promises"
import * as Result from "effect/Result"
import type { Client } from "../client/client.ts"
import type { JobQuery, NamedJobs } from "../client/job-query.ts"
import { CallboardError } from "../errors.ts"
import { rerunJob } from "../jobs/commands/rerun.ts"
import { type BulkPlan, type JobList, summaryOf } from "../jobs/lists.ts"
import { jobView } from "../jobs/view.ts"
import type { Total } from "../options/fields.ts"
import { refuseCursor, refuseInput } from "../options/refuse.ts"
import { compact, ifGiven } from "../protocol/compact.ts"
import type { State } from "../protocol/state.ts"
import { parseDuration, parseTime } from "../protocol/time.ts"
import { DECISION_BUDGET_MS, DEFAULT_BUDGET_MS, DEFAULT_PAGE, MAX_TOTAL } from "../routes/bounds.ts"
import {
  type bulk,
  CANCELLABLE,
  DEAD_ROUTES,
  type deadFilter,
  type filter,
  JOBS_ROUTES,
  RETRYABLE,
  type search,
} from "../routes/jobs.ts"
import type { Values } from "../routes/parameter.ts"
import { reported } from "./decisions.ts"
import { recordOf, shownTo } from "./job-record.ts"
import { boundedRead, withReadDeadline } from "./limits.ts"
import { json } from "./response.ts"
import { type Route, type RouteRequest, served } from "./route.ts"

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
    const message = `select the jobs to ${verb} by state, task, queue, root, parent, group, error or time; state=${states.join(",")} selects all of them`
    throw new CallboardError("invalid-input", message, { field: "state" })
  }
  const wrong = given.state?.find((state) => !states.includes(state))
  if (wrong !== undefined) {
    const message = `state: only jobs that are ${states.join(", ")} can be selected to ${verb}, not ${wrong}`
    throw new CallboardError("invalid-input", message, { field: "state" })
  }
  return { ...queryOf(given), states: given.state ?? states }
}

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
    refuseInput("cursor", "cannot be used with a dry run, which reads all matching jobs")
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
      const message = `${expect} jobs were expected, but ${total.value} match now: check the filters and try again`
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
  if (other !== undefined) refuseInput(other[0], "use either ids or filters, not both")
  return { ids, dead, ...compact({ until: ifGiven(until, timeOf) }) }
}

export const jobsRoutes: ReadonlyArray<Route> = served(JOBS_ROUTES, {
  "GET /v1/count": async ({ c, context, query }) => {
    const { limit: _page, ...wanted } = queryOf(query)
    const budget = DEFAULT_BUDGET_MS / 1_000
    const { count, more = false } = await boundedRead(c.req.raw.signal, (signal) =>
      context.client.count({ ...wanted, budget, signal }),
    )
    return { count, more }
  },
  "GET /v1/jobs": (request) => listed(request, queryOf(request.query), request.query),
  "POST /v1/jobs/cancel": (request) =>
    decided(
      request,
      "cancel",
      namedIn(request.query, false) ?? bulkQueryOf(request.query, "cancel", CANCELLABLE),
      request.query,
    ),
  "POST /v1/jobs/retry": (request) =>
    decided(
      request,
      "retry",
      namedIn(request.query, false) ?? bulkQueryOf(request.query, "retry", RETRYABLE),
      request.query,
    ),
})

export const deadRoutes: ReadonlyArray<Route> = served(DEAD_ROUTES, {
  "GET /v1/dead": (request) => listed(request, deadQueryOf(request.query), request.query),
  "POST /v1/dead/{id}/redrive": async ({ caller, context, id }) => {
    const record = await recordOf(context, id)
    if (record.dead === undefined) {
      throw new CallboardError("not-found", `job ${id} is ${record.state} and not a dead letter`, { id })
    }
    return shownTo(caller, jobView(await rerunJob(context.client.connection, id)))
  },
  "POST /v1/dead/redrive": (request) =>
    decided(request, "retry", namedIn(request.query, true) ?? deadQueryOf(request.query), request.query),
})
