/** Routes of schedules: tasks that are submitted by the clock. */
import * as Schema from "effect/Schema"
import { compact } from "../protocol/compact.ts"
import { isObject } from "../protocol/guards.ts"
import {
  checkScheduleName,
  outlineOf,
  parseScheduleFields,
  ScheduleChangesSchema,
  ScheduleFieldsSchema,
} from "../schedules/fields.ts"
import type { ScheduleContext } from "../schedules/schedules.ts"
import { PostedJob, ScheduleList, type ScheduleView, ScheduleViewSchema } from "../schedules/view.ts"
import { DEFAULT_PAGE, pageLimit, withReadDeadline } from "./limits.ts"
import { integer, text } from "./parameter.ts"
import { bodyOf } from "./request-body.ts"
import { json } from "./response.ts"
import { type Route, type RouteRequest, route } from "./route.ts"
import { parsePrefer } from "./submit.ts"

const NewSchedule = Schema.Struct({
  name: Schema.String.annotate({
    description: "1 to 200 letters, digits, `_`, `.`, `$` or `-`; the ids of jobs begin with it",
  }),
  ...ScheduleFieldsSchema.fields,
}).annotate({ identifier: "NewSchedule" })

const SCHEDULE = { status: 200, description: "The schedule", schema: ScheduleViewSchema } as const
const ID = "Name of the schedule"

const shown = (view: ScheduleView, status = 200): Response => json<typeof ScheduleViewSchema.Type>(view, status)

/** As for a submission: a process that serves actors itself refuses tasks that nothing is known to serve. */
const contextOf = ({ c, context }: RouteRequest): ScheduleContext => {
  const { lenient } = parsePrefer(c.req.raw.headers.get("prefer"))
  return { lenient, strict: !lenient && context.client.directory.local.size > 0 }
}

const BODY_PROBLEMS = [
  "invalid-input",
  "invalid-json",
  "unsupported-content-type",
  "unknown-actor",
  "too-large",
  "overloaded",
] as const

const decided = (action: "pause" | "resume", summary: string, description: string): Route =>
  route({
    method: "POST",
    path: `/v1/schedules/{id}/${action}`,
    idDescription: ID,
    operation: `${action}Schedule`,
    group: "Schedules",
    summary,
    description: `${description} Without the scope \`payload\` the answer says of its \`fields\` the task and when it is due.`,
    scope: "operate",
    responses: [SCHEDULE],
    problems: ["overloaded", "unsupported"],
    handle: async ({ caller, context, id }) => {
      const view = await context.client.schedules[action](id)
      return shown(caller.may("payload") ? view : { ...view, fields: outlineOf(view.fields) })
    },
  })

export const scheduleRoutes: ReadonlyArray<Route> = [
  route({
    method: "POST",
    path: "/v1/schedules",
    operation: "createSchedule",
    group: "Schedules",
    summary: "Submit a task by the clock",
    description:
      "A name, the task, and one of `cron`, `every` and `at`. The same again changes nothing; a name that is taken is `schedule-exists`.",
    scope: "admin",
    body: { "application/json": NewSchedule },
    responses: [{ ...SCHEDULE, status: 201 }],
    problems: [...BODY_PROBLEMS, "schedule-exists", "unsupported"],
    handle: async (request) => {
      const body = await bodyOf(request)
      const { name, ...fields }: { readonly name?: unknown } = isObject(body) ? body : {}
      const { schedules } = request.context.client
      return shown(
        await schedules.create(checkScheduleName(name), parseScheduleFields(fields), contextOf(request)),
        201,
      )
    },
  }),
  route({
    method: "GET",
    path: "/v1/schedules",
    operation: "listSchedules",
    group: "Schedules",
    summary: "Schedules by name",
    scope: "read",
    showsPayload: true,
    query: {
      limit: integer(pageLimit("Most schedules on a page")),
      cursor: text(Schema.String.annotate({ description: "`next` of the page before" })),
    },
    responses: [{ status: 200, description: "A page of schedules", schema: ScheduleList }],
    handle: async ({ context, query: { limit = DEFAULT_PAGE, cursor } }) => {
      const asked = context.client.schedules.list({ limit, ...compact({ after: cursor }) })
      return json<typeof ScheduleList.Type>(await withReadDeadline(asked))
    },
  }),
  route({
    method: "GET",
    path: "/v1/schedules/{id}",
    idDescription: ID,
    operation: "getSchedule",
    group: "Schedules",
    summary: "A schedule, with the states of its last jobs",
    scope: "read",
    showsPayload: true,
    responses: [SCHEDULE],
    problems: ["unsupported"],
    handle: async ({ context, id }) => shown(await withReadDeadline(context.client.schedules.find(id))),
  }),
  route({
    method: "PATCH",
    path: "/v1/schedules/{id}",
    idDescription: ID,
    operation: "changeSchedule",
    group: "Schedules",
    summary: "Change fields of a schedule",
    description:
      "`null` takes a field away; a new `cron`, `every` or `at` takes the place of the one before. What was posted goes on as it is.",
    scope: "admin",
    body: { "application/json": ScheduleChangesSchema },
    responses: [SCHEDULE],
    problems: [...BODY_PROBLEMS, "unsupported"],
    handle: async (request) => {
      const { schedules } = request.context.client
      return shown(await schedules.changeFrom(request.id, await bodyOf(request), contextOf(request)))
    },
  }),
  decided("pause", "Pause a schedule", "Nothing of it is posted until it is resumed. What was posted goes on."),
  decided("resume", "Resume a paused schedule", "What was due meanwhile is not posted, unless it is a single moment."),
  route({
    method: "POST",
    path: "/v1/schedules/{id}/run",
    idDescription: ID,
    operation: "runSchedule",
    group: "Schedules",
    summary: "Post the task of a schedule now",
    description: "Also while it is paused, and whatever its rule for overlaps says.",
    scope: "operate",
    responses: [{ status: 202, description: "It is posted", schema: PostedJob }],
    problems: ["overloaded", "unsupported"],
    handle: async ({ context, id }) => json<typeof PostedJob.Type>(await context.client.schedules.run(id), 202),
  }),
  route({
    method: "DELETE",
    path: "/v1/schedules/{id}",
    idDescription: ID,
    operation: "deleteSchedule",
    group: "Schedules",
    summary: "Delete a schedule",
    description:
      "What it has posted goes on. One that an actor declares is made again when a worker starts: pause it instead.",
    scope: "admin",
    responses: [{ status: 204, description: "It is deleted" }],
    problems: ["overloaded", "unsupported"],
    handle: async ({ context, id }) => {
      await context.client.schedules.delete(id)
      return new Response(null, { status: 204 })
    },
  }),
]
