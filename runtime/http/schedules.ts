/** Routes of schedules: tasks that are submitted by the clock. */

import { compact } from "../protocol/compact.ts"
import { isObject } from "../protocol/guards.ts"
import { DEFAULT_PAGE } from "../routes/bounds.ts"
import { SCHEDULE_ROUTES } from "../routes/schedules.ts"
import { outlineOf, parseScheduleFields } from "../schedules/fields.ts"
import { checkScheduleName } from "../schedules/name.ts"
import type { ScheduleContext } from "../schedules/schedules.ts"
import type { PostedJob, ScheduleView, ScheduleViewSchema } from "../schedules/view.ts"
import { withReadDeadline } from "./limits.ts"
import { bodyOf } from "./request-body.ts"
import { json } from "./response.ts"
import { type Route, type RouteRequest, served } from "./route.ts"
import { parsePrefer } from "./submit.ts"

const shown = (view: ScheduleView, status = 200): Response => json<typeof ScheduleViewSchema.Type>(view, status)

/** As for a submission: a process that serves actors itself refuses tasks that nothing is known to serve. */
const contextOf = ({ c, context }: RouteRequest): ScheduleContext => {
  const { lenient } = parsePrefer(c.req.raw.headers.get("prefer"))
  return { lenient, strict: !lenient && context.client.directory.local.size > 0 }
}

const decided = async ({ caller, context, id }: RouteRequest, action: "pause" | "resume"): Promise<Response> => {
  const view = await context.client.schedules[action](id)
  return shown(caller.may("payload") ? view : { ...view, fields: outlineOf(view.fields) })
}

export const scheduleRoutes: ReadonlyArray<Route> = served(SCHEDULE_ROUTES, {
  "POST /v1/schedules": async (request) => {
    const body = await bodyOf(request)
    const { name, ...fields }: { readonly name?: unknown } = isObject(body) ? body : {}
    const { schedules } = request.context.client
    return shown(await schedules.create(checkScheduleName(name), parseScheduleFields(fields), contextOf(request)), 201)
  },
  "GET /v1/schedules": async ({ context, query: { limit = DEFAULT_PAGE, cursor } }) => {
    const asked = context.client.schedules.list({ limit, ...compact({ after: cursor }) })
    return withReadDeadline(asked)
  },
  "GET /v1/schedules/{id}": async ({ context, id }) => shown(await withReadDeadline(context.client.schedules.find(id))),
  "PATCH /v1/schedules/{id}": async (request) => {
    const { schedules } = request.context.client
    return shown(await schedules.changeFrom(request.id, await bodyOf(request), contextOf(request)))
  },
  "POST /v1/schedules/{id}/pause": (request) => decided(request, "pause"),
  "POST /v1/schedules/{id}/resume": (request) => decided(request, "resume"),
  "POST /v1/schedules/{id}/run": async ({ context, id }) =>
    json<typeof PostedJob.Type>(await context.client.schedules.run(id), 202),
  "DELETE /v1/schedules/{id}": async ({ context, id }) => {
    await context.client.schedules.delete(id)
    return undefined
  },
})
