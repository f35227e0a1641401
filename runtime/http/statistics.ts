/** Routes of the statistics: series over time, findings, tasks, errors by cause. */

import { createHash } from "node:crypto"
import { CallboardError } from "../errors.ts"
import { summaryOf } from "../jobs/lists.ts"
import { jobView } from "../jobs/view.ts"
import { milliseconds } from "../options/duration.ts"
import { isId } from "../protocol/name.ts"
import { DEFAULT_PAGE } from "../routes/bounds.ts"
import { STATISTICS_ROUTES } from "../routes/statistics.ts"
import type { PulseSchema } from "../statistics/schema.ts"
import type { Caller } from "./access.ts"
import { shownTo } from "./job-record.ts"
import { rangeOf, withReadDeadline } from "./limits.ts"
import { json } from "./response.ts"
import { type HttpContext, type Route, served } from "./route.ts"

/** A moment in milliseconds since the epoch. Fails with `invalid-input`, naming the parameter. */
const momentOf = (field: string, given: string | undefined): number | undefined => {
  if (given === undefined) return undefined
  const at = /^\d{4}-\d\d-\d\dT/.test(given) ? Date.parse(given) : Number.NaN
  if (Number.isFinite(at)) return at
  throw new CallboardError("invalid-input", `${field}: must be a time such as 2026-01-31T12:00:00Z`, { field })
}

/** The jobs that still have a record, without fields that may be long, as the caller may see them. */
const summariesOf = async ({ client }: HttpContext, caller: Caller, ids: ReadonlyArray<string>) => {
  const known = ids.filter((id) => isId(id))
  const found = await Promise.all([...new Set(known)].map((id) => client.connection.jobs.find(id)))
  return found.flatMap((each) =>
    each === undefined || each.record.tombstone ? [] : [summaryOf(shownTo(caller, jobView(each.record)))],
  )
}

export const statisticsRoutes: ReadonlyArray<Route> = served(STATISTICS_ROUTES, {
  "GET /v1/stats": async ({ context, query: { range } }) =>
    await withReadDeadline(context.client.statistics.stats(rangeOf("range", range ?? "1h"))),
  "GET /v1/tasks": async ({ context, query: { range, sort, cursor, limit = DEFAULT_PAGE } }) => {
    const asked = { range: rangeOf("range", range ?? "1h"), sort, limit, after: cursor }
    return withReadDeadline(context.client.statistics.tasks(asked))
  },
  "GET /v1/pulse": async ({ c, caller, context, query: { ids = [] } }) => {
    const [{ counts, more, asOf }, jobs] = await withReadDeadline(
      Promise.all([context.client.statistics.counts(), summariesOf(context, caller, ids)]),
    )
    const told = { counts, more, jobs }
    const etag = `"${createHash("sha256").update(JSON.stringify(told)).digest("base64url").slice(0, 22)}"`
    if (c.req.header("if-none-match") === etag) return new Response(null, { status: 304, headers: { etag } })
    return json<typeof PulseSchema.Type>({ at: new Date(asOf).toISOString(), ...told }, 200, { etag })
  },
  "GET /v1/series": async ({ context, query: { of = "ended", by, task, queue, range, from, to, step } }) => {
    const asked = {
      of,
      by,
      task,
      queue,
      range: range === undefined ? undefined : rangeOf("range", range),
      from: momentOf("from", from),
      to: momentOf("to", to),
      step: step === undefined ? undefined : milliseconds("step", step),
    }
    return withReadDeadline(context.client.statistics.series(asked))
  },
  "GET /v1/errors": async ({ context, query: { range, cursor, limit = DEFAULT_PAGE, ...filter } }) => {
    const asked = { ...filter, range: rangeOf("range", range ?? "1h"), limit, after: cursor }
    return withReadDeadline(context.client.statistics.errors(asked))
  },
  "GET /v1/errors/{id}": async ({ context, id, query: { range } }) =>
    await withReadDeadline(context.client.statistics.error(id, rangeOf("range", range ?? "1h"))),
})
