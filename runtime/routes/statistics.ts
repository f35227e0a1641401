/** Routes of the statistics: series over time, findings, tasks, errors by cause. */
import * as Schema from "effect/Schema"
import { ERROR_SORTS, ERROR_STATES } from "../statistics/errors.ts"
import { ErrorDetails, ErrorList, PulseSchema, SeriesSchema, StatsSchema, TaskList } from "../statistics/schema.ts"
import { SERIES_BY, SERIES_OF } from "../statistics/series.ts"
import { TASK_SORTS } from "../statistics/tasks.ts"
import { DEFAULT_PAGE, MAX_PAGE } from "./bounds.ts"
import type { Descriptions } from "./description.ts"
import { integer, list, text } from "./parameter.ts"

const Name = (description: string) =>
  Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(255)).annotate({ description })

const page = {
  limit: integer(
    Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_PAGE })).annotate({
      description: "Most on a page",
      default: DEFAULT_PAGE,
    }),
  ),
  cursor: text(Name("Where to go on: the `next` of the page before")),
}

const Moment = (description: string) => Schema.String.check(Schema.isMaxLength(64)).annotate({ description })

const Range = text(
  Schema.String.check(Schema.isMaxLength(32)).annotate({
    description: `How far back: \`1h\`, or up to \`24h\``,
    default: "1h",
  }),
)

/** Most jobs that one pulse follows. */
const MAX_FOLLOWED = 100

const Ids = Schema.Array(Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(255)))
  .check(Schema.isMaxLength(MAX_FOLLOWED))
  .annotate({ description: `Ids of jobs in sight, ${MAX_FOLLOWED} at most, with commas between them` })

export const STATISTICS_ROUTES = {
  "GET /v1/stats": {
    operation: "getStats",
    group: "Statistics",
    summary: "How the board is, in numbers, and what is wrong with it",
    description:
      "Findings are made by rules, each with evidence, and with the request that helps where there is one; without any the board is well. Where what workers write is over a minute old, nothing is found, and the verdict says so. `more` names counts that are only known to be at least so high: of a state that jobs end in, 10,000 are counted. Those of `succeeded`, `dead` and `retrying` are up to 15 seconds old. What takes long to count is counted the more rarely, so that it never takes more than a twentieth of the time.",
    scope: "read",
    query: { range: Range },
    responses: [{ status: 200, description: "The numbers", schema: StatsSchema }],
  },
  "GET /v1/tasks": {
    operation: "listTasks",
    group: "Statistics",
    summary: "Tasks in numbers: how many, how many fail, how long they wait and run",
    description: "Of a range, and of the range before it where that is known. Durations are seconds, ± 5 %.",
    scope: "read",
    query: {
      range: Range,
      sort: text(Schema.Literals(TASK_SORTS).annotate({ description: "The largest first", default: "rate" })),
      ...page,
    },
    responses: [{ status: 200, description: "A page of tasks", schema: TaskList }],
  },
  "GET /v1/pulse": {
    operation: "getPulse",
    group: "Statistics",
    summary: "What changes while one looks: jobs by state, and the jobs in sight",
    description:
      "For a page that asks every two seconds. The numbers are counted once a second, whatever the number of callers. With the `ETag` of the answer before, in `If-None-Match`, it is 304 while nothing has changed.",
    scope: "read",
    query: { ids: list(Ids) },
    headers: { "if-none-match": { description: "The `ETag` of the answer before", example: '"Xk3vCq0ZbVQ"' } },
    responses: [
      {
        status: 200,
        description: "The numbers, and the jobs",
        schema: PulseSchema,
        headers: { etag: "Names the answer" },
      },
      { status: 304, description: "Nothing has changed" },
    ],
  },
  "GET /v1/series": {
    operation: "getSeries",
    group: "Statistics",
    summary: "What happened over time: counts, or percentiles of waiting and running",
    description:
      "Of the last hour unless `from` says otherwise; at most 24 hours, 12 series (the rest is `(other)`) and 120 points. Workers write what they have counted every ten seconds. `null`: nothing is known of that time. `marks`: a version of the application that was first seen, and a worker that was last seen and did not stop in order. A job is counted as submitted once a worker has taken it, at the time of its submission: while a queue is behind, its last minutes are too low. `partial`: not all could be read in time; ask again.",
    scope: "read",
    query: {
      of: text(
        Schema.Literals(SERIES_OF).annotate({
          description:
            "Jobs that ended, were submitted; attempts that started; seconds that they had waited, or ran; what waits in queues",
          default: "ended",
        }),
      ),
      by: text(Schema.Literals(SERIES_BY).annotate({ description: "One series for each; absent: one in all" })),
      task: text(Name("Only this task, `actor.method`, or all of an actor")),
      queue: text(Name("Only this queue")),
      range: text(
        Schema.String.check(Schema.isMaxLength(32)).annotate({
          description: "How far back, in the place of `from`: `1h`, or up to `24h`; by the clock of the board",
        }),
      ),
      from: text(Moment("Begin, ISO 8601; one hour ago if nothing is said")),
      to: text(Moment("End, ISO 8601; now if nothing is said")),
      step: text(
        Moment(
          "Length of a point: `1m`, or seconds; a multiple of a minute, and of ten where `from` is over two hours ago",
        ),
      ),
    },
    responses: [{ status: 200, description: "The series", schema: SeriesSchema }],
  },
  "GET /v1/errors": {
    operation: "listErrors",
    group: "Statistics",
    summary: "Why jobs fail: causes, not jobs",
    description:
      "Failures are of one cause when the name, the reason, the message without what differs (numbers, ids, quoted text, addresses) and the function that threw are the same. The 500 causes that appeared last are known. `new`: first seen in this range; `back`: again in this range after an hour without it; `quiet`: not for 15 minutes. The jobs of a cause: `GET /v1/jobs?error=`.",
    scope: "read",
    query: {
      range: Range,
      task: text(Name("Only of this task, `actor.method`, or all of an actor")),
      queue: text(Name("Only of this queue")),
      state: text(Schema.Literals(ERROR_STATES).annotate({ description: "`quiet`, or `open`: all others" })),
      sort: text(
        Schema.Literals(ERROR_SORTS).annotate({ description: "The largest, or latest, first", default: "last" }),
      ),
      ...page,
    },
    responses: [{ status: 200, description: "A page of causes", schema: ErrorList }],
  },
  "GET /v1/errors/{id}": {
    idDescription: "Fingerprint of the cause, as the record of a failed job has it",
    operation: "getError",
    group: "Statistics",
    summary: "One cause of failures: where it appears, and its newest jobs",
    scope: "read",
    query: { range: Range },
    responses: [{ status: 200, description: "The cause", schema: ErrorDetails }],
  },
} as const satisfies Descriptions
