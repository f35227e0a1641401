/** Routes about one job, by its id. */
import * as Result from "effect/Result"
import { CallboardError } from "../errors.ts"
import { cancelJob } from "../jobs/commands/cancel.ts"
import { stillIn } from "../jobs/commands/decide.ts"
import { deleteJob } from "../jobs/commands/delete.ts"
import { patchMeta } from "../jobs/commands/meta.ts"
import { runJobNow } from "../jobs/commands/rerun.ts"
import { signalJob } from "../jobs/commands/signal.ts"
import type { JobTree } from "../jobs/lists.ts"
import type { Forgotten, Job, JobWith, Pending } from "../jobs/responses.ts"
import { parseSignal } from "../jobs/signal-request.ts"
import { treeOf } from "../jobs/tree.ts"
import { jobView, type RunView, runView } from "../jobs/view.ts"
import { transportDown } from "../jobs/why/ask.ts"
import { withoutTenant } from "../jobs/why/cause.ts"
import { parserOf } from "../options/check.ts"
import type { JobRecord, RunOutcome } from "../protocol/record.ts"
import { parseDuration } from "../protocol/time.ts"
import { DEFAULT_BUDGET_MS } from "../routes/bounds.ts"
import { DEFAULT_TREE, JOB_ROUTES, WHY_ROUTES } from "../routes/job.ts"
import { SignalBody } from "../routes/service-schema.ts"
import { stepsOf } from "../steps/listing.ts"
import { retryJob } from "../steps/rerun.ts"
import type { Caller } from "./access.ts"
import { budgetOf } from "./decisions.ts"
import {
  detailsFor,
  detailsWith,
  jobOutcome,
  recordAfterWait,
  recordOf,
  resultsAfterWait,
  shownTo,
} from "./job-record.ts"
import { boundedRead, withReadDeadline } from "./limits.ts"
import { checkLinkTime, makeLink } from "./link.ts"
import { linkedOutcome } from "./linked-job.ts"
import { bodyOf, optionalBodyOf } from "./request-body.ts"
import { json, tagged } from "./response.ts"
import { type Route, served } from "./route.ts"

const parseSignalBody = parserOf(SignalBody, "a signal", "body")

/** `Retry-After` in seconds: 1, or until a scheduled job is due, 60 at most. */
const retryAfter = ({ state, dueAt }: JobRecord): string => {
  if (state !== "scheduled" || dueAt === undefined) return "1"
  return String(Math.min(Math.max(Math.ceil((dueAt - Date.now()) / 1000), 1), 60))
}

const runFor = (caller: Caller, outcome: RunOutcome): RunView => {
  const view = runView(outcome)
  if (caller.may("payload")) return view
  const { result: _result, ...rest } = view
  return rest
}

/** Fails with `forbidden` if the caller has a link. */
const refuseToLink = ({ link }: Caller, message: string): void => {
  if (link !== undefined) throw new CallboardError("forbidden", message)
}

export const jobRoutes: ReadonlyArray<Route> = served(JOB_ROUTES, {
  "GET /v1/jobs/{id}": async ({ c, caller, context, id, query }) => {
    const parts = query.with ?? []
    if (parts.length > 0) refuseToLink(caller, "a link shows neither the input nor the attempts of its job")
    if (parts.includes("input") && !caller.may("payload")) {
      throw new CallboardError("forbidden", "this token lacks the scope payload, which is required for with=input", {
        scope: "payload",
      })
    }
    const record = await recordOf(context, id)
    return parts.length === 0
      ? tagged<typeof Job.Type>(c.req.raw, await detailsFor(context, caller, record))
      : tagged<typeof JobWith.Type>(c.req.raw, await detailsWith(context, caller, record, parts))
  },
  "GET /v1/jobs/{id}/tree": ({ c, context, id, query: { limit = DEFAULT_TREE } }) =>
    boundedRead(c.req.raw.signal, async (signal) => {
      const options = { limit, budget: DEFAULT_BUDGET_MS, signal }
      return json<typeof JobTree.Type>(await treeOf(context.client.connection, id, options))
    }),
  "GET /v1/jobs/{id}/steps": async ({ caller, context, id, query: { limit = 100, cursor } }) => {
    const page = await withReadDeadline(stepsOf(context.client.connection, id, { limit, after: cursor }))
    const shown = caller.may("payload") ? page.steps : page.steps.map(({ value: _value, ...step }) => step)
    return { ...page, steps: shown }
  },
  "GET /v1/jobs/{id}/results": async ({ c, caller, context, id, query }) => {
    const wait = parseDuration(query.wait ?? 0)
    const ms = Result.isSuccess(wait) ? wait.success : 0
    const results = await resultsAfterWait(context, id, ms, c.req.raw.signal)
    return { id, results: results.map((each) => runFor(caller, each)) }
  },
  "GET /v1/jobs/{id}/result": async ({ c, caller, context, id, query }) => {
    const wait = parseDuration(query.wait ?? 0)
    const { link } = caller
    // A link that ends while its holder waits shows nothing more.
    const left = link === undefined ? Number.POSITIVE_INFINITY : Math.max(0, link.until - Date.now())
    const ms = Math.min(Result.isSuccess(wait) ? wait.success : 0, left)
    const record = await recordAfterWait(context, id, ms, c.req.raw.signal)
    if (link !== undefined) checkLinkTime(link)
    const end = jobOutcome(record)
    if (end !== undefined) {
      const { result: _result, ...how } = end
      const shown = caller.may("payload") ? end : how
      return { id, ...(caller.link === undefined ? shown : linkedOutcome(shown)) }
    }
    const pending: typeof Pending.Type = { id, state: record.state }
    return json(pending, 202, { "retry-after": retryAfter(record) })
  },
  "GET /v1/jobs/{id}/position": async ({ context, id }) => {
    const { position = null, more = false } = (await withReadDeadline(context.client.position(id))) ?? {}
    return { position, more }
  },
  "POST /v1/jobs/{id}/cancel": async ({ caller, context, id, query }) => {
    const { terminate = false, release = false, state } = query
    if (terminate || release)
      refuseToLink(caller, "a link cancels its job alone: terminate and release can end or start other jobs")
    const check = state === undefined ? undefined : stillIn(state)
    const record = await cancelJob(context.client.connection, id, { terminate, release }, check)
    return shownTo(caller, jobView(record))
  },
  "POST /v1/jobs/{id}/retry": async ({ caller, context, id, query }) => {
    return shownTo(caller, jobView(await retryJob(context.client.connection, id, query)))
  },
  "POST /v1/jobs/{id}/link": async (request) => {
    const { caller, context, id } = request
    const issuer = { secret: context.linkSecret, may: caller.may }
    const made = makeLink(context.client.connection, issuer, id, await optionalBodyOf(request))
    return withReadDeadline(made)
  },
  "POST /v1/jobs/{id}/run-now": async ({ caller, context, id }) =>
    shownTo(caller, jobView(await runJobNow(context.client.connection, id))),
  "DELETE /v1/jobs/{id}": async ({ context, id, query: { dependents = false, budget } }) => {
    const partial = await deleteJob(context.client.connection, id, { dependents, budget: budgetOf(budget) })
    if (partial === undefined) return undefined
    return json<typeof Forgotten.Type>({ partial }, 202)
  },
  "POST /v1/jobs/{id}/signals/{name}": async (request) => {
    const { c, context, id } = request
    const body = parseSignalBody(await optionalBodyOf(request))
    const signal = parseSignal({ ...body, name: c.req.param("name") ?? "" }, id)
    await signalJob(context.client.connection, id, signal)
    return undefined
  },
  "PATCH /v1/jobs/{id}/meta": async (request) => {
    const { caller, context, id } = request
    const patch = await bodyOf(request)
    return shownTo(caller, jobView(await patchMeta(context.client.connection, id, patch)))
  },
})

export const whyRoutes: ReadonlyArray<Route> = served(WHY_ROUTES, {
  "GET /v1/jobs/{id}/why": async ({ caller, context, id }) => {
    const outage = context.outage()
    const why = outage === undefined ? await context.client.why(id) : transportDown(id, outage)
    return caller.may("payload") ? why : withoutTenant(why)
  },
})
