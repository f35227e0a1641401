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
      description: "Maximum number on a page",
      default: DEFAULT_PAGE,
    }),
  ),
  cursor: text(Name("Where to continue: the `next` of the previous page")),
}

const Moment = (description: string) => Schema.String.check(Schema.isMaxLength(64)).annotate({ description })

const Range = text(
  Schema.String.check(Schema.isMaxLength(32)).annotate({
    description: `How far back, such as \`1h\`; at most \`24h\``,
    default: "1h",
  }),
)

/** Most jobs that one pulse follows. */
const MAX_FOLLOWED = 100

const Ids = Schema.Array(Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(255)))
  .check(Schema.isMaxLength(MAX_FOLLOWED))
  .annotate({ description: `Ids of the jobs on screen, at most ${MAX_FOLLOWED}, separated by commas` })

export const STATISTICS_ROUTES = {
  "GET /v1/stats": {
    operation: "getStats",
    group: "Statistics",
    summary: "The state of the system in numbers, and its problems",
    description:
      "Rules produce the findings, each with evidence and, if there is one, the request that helps; without findings everything is fine. If the reports of workers are over a minute old, there are no findings, and the verdict says so. `more` names counts that are lower bounds: jobs in a final state are counted up to 10,000. Those of `succeeded`, `dead` and `retrying` are up to 15 seconds old. Slow counts are repeated less often, so that counting takes at most a twentieth of the time.",
    scope: "read",
    query: { range: Range },
    responses: [{ status: 200, description: "The numbers", schema: StatsSchema }],
  },
  "GET /v1/tasks": {
    operation: "listTasks",
    group: "Statistics",
    summary: "Statistics by task: counts, failures, waiting and running times",
    description: "For a range and, if known, the range before it. Durations are in seconds, ± 5 %.",
    scope: "read",
    query: {
      range: Range,
      sort: text(Schema.Literals(TASK_SORTS).annotate({ description: "Sort order, largest first", default: "rate" })),
      ...page,
    },
    responses: [{ status: 200, description: "A page of tasks", schema: TaskList }],
  },
  "GET /v1/pulse": {
    operation: "getPulse",
    group: "Statistics",
    summary: "Live numbers: jobs by state, and the jobs on screen",
    description:
      "For a page that polls every two seconds. The numbers are counted once a second, regardless of the number of callers. With the `ETag` of the previous response in `If-None-Match`, the response is 304 while nothing has changed.",
    scope: "read",
    query: { ids: list(Ids) },
    headers: { "if-none-match": { description: "The `ETag` of the previous response", example: '"Xk3vCq0ZbVQ"' } },
    responses: [
      {
        status: 200,
        description: "The numbers, and the jobs",
        schema: PulseSchema,
        headers: { etag: "Identifies the response" },
      },
      { status: 304, description: "Nothing has changed" },
    ],
  },
  "GET /v1/series": {
    operation: "getSeries",
    group: "Statistics",
    summary: "Time series: counts, or percentiles of waiting and running times",
    description:
      "For the last hour unless `from` is set; at most 24 hours, 12 series (the rest is `(other)`) and 120 points. Workers write their counts every ten seconds. `null`: nothing is known about that time. `marks`: when a version of the application was first seen, and when a worker that did not shut down gracefully was last seen. A job is counted as submitted once a worker has taken it, at the time of its submission: while a queue is behind, its last minutes are too low. `partial`: not everything could be read in time; ask again.",
    scope: "read",
    query: {
      of: text(
        Schema.Literals(SERIES_OF).annotate({
          description:
            "`ended` and `submitted` count jobs, `started` attempts; `waited` and `ran` are their seconds; `waiting` counts the tasks in queues",
          default: "ended",
        }),
      ),
      by: text(
        Schema.Literals(SERIES_BY).annotate({ description: "One series for each value; if absent, a single series" }),
      ),
      task: text(Name("Only this task, `actor.method`, or all methods of an actor")),
      queue: text(Name("Only this queue")),
      range: text(
        Schema.String.check(Schema.isMaxLength(32)).annotate({
          description: "How far back, instead of `from`: `1h`, up to `24h`; by the clock of the store",
        }),
      ),
      from: text(Moment("Start, ISO 8601; the default is one hour ago")),
      to: text(Moment("End, ISO 8601; the default is now")),
      step: text(
        Moment(
          "Interval between points: `1m`, or seconds; a multiple of a minute, or of ten minutes if `from` is over two hours ago",
        ),
      ),
    },
    responses: [{ status: 200, description: "The series", schema: SeriesSchema }],
  },
  "GET /v1/errors": {
    operation: "listErrors",
    group: "Statistics",
    summary: "Failures, grouped by cause",
    description:
      "Failures have the same cause if the name, the reason, the throwing function and the message, without its variable parts (numbers, ids, quoted text, addresses), are the same. The 500 most recent causes are kept. `new`: first seen in this range; `back`: seen again in this range after an hour without it; `quiet`: not seen for 15 minutes. The jobs of a cause: `GET /v1/jobs?error=`.",
    scope: "read",
    query: {
      range: Range,
      task: text(Name("Only this task, `actor.method`, or all methods of an actor")),
      queue: text(Name("Only this queue")),
      state: text(Schema.Literals(ERROR_STATES).annotate({ description: "`quiet`, or `open` for all others" })),
      sort: text(
        Schema.Literals(ERROR_SORTS).annotate({ description: "Sort order, largest or latest first", default: "last" }),
      ),
      ...page,
    },
    responses: [{ status: 200, description: "A page of causes", schema: ErrorList }],
  },
  "GET /v1/errors/{id}": {
    idDescription: "Fingerprint of the cause, as in the record of a failed job",
    operation: "getError",
    group: "Statistics",
    summary: "A cause of failures: where it occurs, and its newest jobs",
    scope: "read",
    query: { range: Range },
    responses: [{ status: 200, description: "The cause", schema: ErrorDetails }],
  },
} as const satisfies Descriptions
