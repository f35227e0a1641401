/** Routes of schedules: tasks that are submitted by the clock. */
import * as Schema from "effect/Schema"
import { ScheduleChangesSchema, ScheduleFieldsSchema } from "../schedules/fields.ts"
import { PostedJob, ScheduleList, ScheduleViewSchema } from "../schedules/view.ts"
import { pageLimit } from "./bounds.ts"
import type { Descriptions } from "./description.ts"
import { integer, text } from "./parameter.ts"

const NewSchedule = Schema.Struct({
  name: Schema.String.annotate({
    description: "1 to 200 letters, digits, `_`, `.`, `$` or `-`; the ids of its jobs begin with it",
  }),
  ...ScheduleFieldsSchema.fields,
}).annotate({ identifier: "NewSchedule" })

const SCHEDULE = { status: 200, description: "The schedule", schema: ScheduleViewSchema } as const
const ID = "Name of the schedule"

const BODY_PROBLEMS = [
  "invalid-input",
  "invalid-json",
  "unsupported-content-type",
  "unknown-actor",
  "too-large",
  "overloaded",
] as const

export const SCHEDULE_ROUTES = {
  "POST /v1/schedules": {
    operation: "createSchedule",
    group: "Schedules",
    summary: "Create a schedule",
    description:
      "A name, the task, and one of `cron`, `every` and `at`. Creating the same schedule again changes nothing; if the name belongs to a different schedule, the error is `schedule-exists`.",
    scope: "admin",
    body: { "application/json": NewSchedule },
    responses: [{ ...SCHEDULE, status: 201 }],
    problems: [...BODY_PROBLEMS, "schedule-exists", "unsupported"],
  },
  "GET /v1/schedules": {
    operation: "listSchedules",
    group: "Schedules",
    summary: "Schedules by name",
    scope: "read",
    showsPayload: true,
    query: {
      limit: integer(pageLimit("Maximum number of schedules on a page")),
      cursor: text(Schema.String.annotate({ description: "`next` of the previous page" })),
    },
    responses: [{ status: 200, description: "A page of schedules", schema: ScheduleList }],
  },
  "GET /v1/schedules/{id}": {
    idDescription: ID,
    operation: "getSchedule",
    group: "Schedules",
    summary: "A schedule, with the states of its last jobs",
    scope: "read",
    showsPayload: true,
    responses: [SCHEDULE],
    problems: ["unsupported"],
  },
  "PATCH /v1/schedules/{id}": {
    idDescription: ID,
    operation: "changeSchedule",
    group: "Schedules",
    summary: "Change fields of a schedule",
    description:
      "`null` removes a field; a new `cron`, `every` or `at` replaces the current one. Jobs that were already submitted are not changed.",
    scope: "admin",
    body: { "application/json": ScheduleChangesSchema },
    responses: [SCHEDULE],
    problems: [...BODY_PROBLEMS, "unsupported"],
  },
  "POST /v1/schedules/{id}/pause": {
    idDescription: ID,
    operation: "pauseSchedule",
    group: "Schedules",
    summary: "Pause a schedule",
    description:
      "It submits nothing until it is resumed. Jobs that were already submitted continue. Without the scope `payload`, the `fields` in the response contain only the task and the times.",
    scope: "operate",
    responses: [SCHEDULE],
    problems: ["overloaded", "unsupported"],
  },
  "POST /v1/schedules/{id}/resume": {
    idDescription: ID,
    operation: "resumeSchedule",
    group: "Schedules",
    summary: "Resume a paused schedule",
    description:
      "Due times that passed during the pause are skipped, except the single time of `at`. Without the scope `payload`, the `fields` in the response contain only the task and the times.",
    scope: "operate",
    responses: [SCHEDULE],
    problems: ["overloaded", "unsupported"],
  },
  "POST /v1/schedules/{id}/run": {
    idDescription: ID,
    operation: "runSchedule",
    group: "Schedules",
    summary: "Run a schedule now",
    description: "Submits its task now, even while it is paused and regardless of its `overlap` rule.",
    scope: "operate",
    responses: [{ status: 202, description: "The task is submitted", schema: PostedJob }],
    problems: ["overloaded", "unsupported"],
  },
  "DELETE /v1/schedules/{id}": {
    idDescription: ID,
    operation: "deleteSchedule",
    group: "Schedules",
    summary: "Delete a schedule",
    description:
      "Jobs that it has submitted continue. A schedule that an actor declares is created again when a worker starts: pause it instead.",
    scope: "admin",
    responses: [{ status: 204, description: "The schedule is deleted" }],
    problems: ["overloaded", "unsupported"],
  },
} as const satisfies Descriptions
