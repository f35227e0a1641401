/** Routes of schedules: tasks that are submitted by the clock. */
import * as Schema from "effect/Schema"
import { ScheduleChangesSchema, ScheduleFieldsSchema } from "../schedules/fields.ts"
import { PostedJob, ScheduleList, ScheduleViewSchema } from "../schedules/view.ts"
import { pageLimit } from "./bounds.ts"
import type { Descriptions } from "./description.ts"
import { integer, text } from "./parameter.ts"

const NewSchedule = Schema.Struct({
  name: Schema.String.annotate({
    description: "1 to 200 letters, digits, `_`, `.`, `$` or `-`; the ids of jobs begin with it",
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
    summary: "Submit a task by the clock",
    description:
      "A name, the task, and one of `cron`, `every` and `at`. The same again changes nothing; a name that is taken is `schedule-exists`.",
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
      limit: integer(pageLimit("Most schedules on a page")),
      cursor: text(Schema.String.annotate({ description: "`next` of the page before" })),
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
      "`null` takes a field away; a new `cron`, `every` or `at` takes the place of the one before. What was posted goes on as it is.",
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
      "Nothing of it is posted until it is resumed. What was posted goes on. Without the scope `payload` the answer says of its `fields` the task and when it is due.",
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
      "What was due meanwhile is not posted, unless it is a single moment. Without the scope `payload` the answer says of its `fields` the task and when it is due.",
    scope: "operate",
    responses: [SCHEDULE],
    problems: ["overloaded", "unsupported"],
  },
  "POST /v1/schedules/{id}/run": {
    idDescription: ID,
    operation: "runSchedule",
    group: "Schedules",
    summary: "Post the task of a schedule now",
    description: "Also while it is paused, and whatever its rule for overlaps says.",
    scope: "operate",
    responses: [{ status: 202, description: "It is posted", schema: PostedJob }],
    problems: ["overloaded", "unsupported"],
  },
  "DELETE /v1/schedules/{id}": {
    idDescription: ID,
    operation: "deleteSchedule",
    group: "Schedules",
    summary: "Delete a schedule",
    description:
      "What it has posted goes on. One that an actor declares is made again when a worker starts: pause it instead.",
    scope: "admin",
    responses: [{ status: 204, description: "It is deleted" }],
    problems: ["overloaded", "unsupported"],
  },
} as const satisfies Descriptions
