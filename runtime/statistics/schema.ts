/** Schemas of the statistics, of queues and of limits: their types and the OpenAPI document are made from them. */
import * as Schema from "effect/Schema"
import { JobSummary } from "../jobs/responses.ts"
import { Count, next, Time } from "../options/fields.ts"

/** `null`: nothing is known of that time. */
const Points = Schema.Array(Schema.NullOr(Schema.Finite))
export type Points = typeof Points.Type

export const partial = Schema.optionalKey(
  Schema.Literal(true).annotate({
    description: "Not everything could be read in time: ask again to continue",
  }),
)

const PercentilePoints = Schema.Struct({ p50: Points, p95: Points, p99: Points })
export type PercentilePoints = typeof PercentilePoints.Type

/** What happened at a moment: a version was first seen, or a worker was last seen that did not stop in order. */
const Mark = Schema.Struct({ at: Time, kind: Schema.Literals(["version", "lost"]), text: Schema.String }).annotate({
  identifier: "Mark",
})
export type Mark = typeof Mark.Type

export const SeriesSchema = Schema.Struct({
  from: Time,
  to: Time,
  step: Schema.Finite.annotate({ description: "Interval between points, in seconds" }),
  series: Schema.Array(
    Schema.Struct({
      key: Schema.String.annotate({ description: "Category: `ok`, `failed`, `other`; a task, queue or version" }),
      points: Schema.Union([Points, PercentilePoints]).annotate({
        description: "Numbers, or percentiles in seconds, ± 5 %",
      }),
    }),
  ),
  marks: Schema.Array(Mark),
  partial,
}).annotate({ identifier: "Series" })
export type Series = typeof SeriesSchema.Type

const cause = {
  fingerprint: Schema.String,
  name: Schema.String.annotate({ description: "Name of the error" }),
  template: Schema.String.annotate({
    description: "Its message without variable parts, such as `order <n> is missing`",
  }),
  reason: Schema.String,
  tasks: Schema.Array(Schema.String),
  count: Count.annotate({ description: "Attempts that failed in the range" }),
  jobs: Schema.Struct({ failed: Count, retrying: Count, dead: Count }).annotate({
    description: "What happened to their jobs",
  }),
  first: Time,
  last: Time,
  status: Schema.Literals(["new", "back", "ongoing", "quiet"]),
  frame: Schema.optionalKey(Schema.String.annotate({ description: "Function and file that threw it" })),
  spark: Schema.Array(Count).annotate({ description: "Attempts that failed in each thirtieth of the range" }),
  sample: Schema.Array(Schema.String).annotate({ description: "Ids of the newest jobs, at most 3" }),
}

const Cause = Schema.Struct(cause).annotate({ identifier: "ErrorCause" })
export type Cause = typeof Cause.Type

export const ErrorList = Schema.Struct({
  errors: Schema.Array(Cause),
  next,
  partial,
}).annotate({ identifier: "ErrorList" })
export type ErrorList = typeof ErrorList.Type

const Shares = Schema.Array(Schema.Struct({ key: Schema.String, count: Count }))
export type Shares = typeof Shares.Type

export const ErrorDetails = Schema.Struct({
  ...cause,
  ids: Schema.Array(Schema.String).annotate({ description: "Ids of the newest jobs, at most 100" }),
  by: Schema.Struct({ version: Shares, worker: Shares, attempt: Shares, queue: Shares }).annotate({
    description: "The five largest of each, and `(other)`",
  }),
  traceback: Schema.optionalKey(Schema.String.annotate({ description: "From one of the newest jobs" })),
}).annotate({ identifier: "ErrorDetails" })
export type CauseDetails = typeof ErrorDetails.Type

const Percentiles = Schema.Struct({ p50: Schema.Finite, p95: Schema.Finite, p99: Schema.Finite }).annotate({
  description: "In seconds, ± 5 %",
})
export type Percentiles = typeof Percentiles.Type

const Counts = Schema.Record(Schema.String, Count).annotate({
  description:
    "Jobs by state; also the `dead` letters among them, and `retrying`, the jobs that wait for another attempt",
})
export type Counts = typeof Counts.Type
const More = Schema.Array(Schema.String).annotate({ description: "Names of counts that are lower bounds" })

const FINDING_CODES = [
  "no-worker",
  "worker-lost",
  "worker-blocked",
  "paused-long",
  "falling-behind",
  "dead-new",
  "overdue",
  "failing",
] as const

const FindingSchema = Schema.Struct({
  code: Schema.Literals(FINDING_CODES),
  severity: Schema.Literals(["bad", "warn"]),
  title: Schema.String.annotate({ description: "A sentence for people" }),
  detail: Schema.String,
  since: Time,
  evidence: Schema.Record(Schema.String, Schema.Union([Schema.String, Schema.Finite])),
  href: Schema.String.annotate({ description: "Where the page shows more" }),
  action: Schema.optionalKey(
    Schema.Struct({ label: Schema.String, method: Schema.Literal("POST"), href: Schema.String }).annotate({
      description: "A request that helps",
    }),
  ),
}).annotate({ identifier: "Finding" })
export type Finding = typeof FindingSchema.Type

export const StatsSchema = Schema.Struct({
  at: Time,
  counts: Counts,
  more: More,
  asOf: Time.annotate({ description: "When the oldest of the counts was taken" }),
  ended: Schema.Struct({ succeeded: Count, failed: Count, cancelled: Count, expired: Count }).annotate({
    description: "Jobs that ended at a worker in the range",
  }),
  perMinute: Schema.optionalKey(
    Schema.Struct({ in: Schema.Finite, started: Schema.Finite, ended: Schema.Finite }).annotate({
      description: "Over the last five minutes",
    }),
  ),
  wait: Schema.optionalKey(Percentiles),
  handlers: Schema.Struct({ busy: Count, all: Count }),
  workers: Schema.Struct({ alive: Count, lost: Count.annotate({ description: "In the last 15 minutes" }) }),
  verdict: Schema.String.annotate({ description: "A summary of the findings, in one sentence" }),
  findings: Schema.Array(FindingSchema),
  partial,
}).annotate({ identifier: "Stats" })
export type Stats = typeof StatsSchema.Type

const TaskNumbers = Schema.Struct({
  perMinute: Schema.Finite.annotate({ description: "Attempts that ended, per minute" }),
  failed: Count.annotate({ description: "Attempts that failed, including retried ones" }),
  failRate: Schema.Finite.annotate({ description: "0 to 1" }),
  wait: Schema.optionalKey(Percentiles),
  run: Schema.optionalKey(Percentiles),
})
export type TaskNumbers = typeof TaskNumbers.Type

const TaskStats = Schema.Struct({
  task: Schema.String,
  queue: Schema.String.annotate({ description: "The queue of most of its attempts" }),
  ...TaskNumbers.fields,
  share: Schema.Finite.annotate({ description: "Its share of the running time of all handlers, 0 to 1" }),
  before: Schema.optionalKey(TaskNumbers.annotate({ description: "The previous range" })),
  spark: Schema.Array(Count).annotate({ description: "Attempts that ended in each thirtieth of the range" }),
}).annotate({ identifier: "TaskStats" })
export type TaskStats = typeof TaskStats.Type

export const TaskList = Schema.Struct({
  tasks: Schema.Array(TaskStats),
  next,
  partial,
}).annotate({ identifier: "TaskList" })
export type TaskList = typeof TaskList.Type

export const PulseSchema = Schema.Struct({
  at: Time,
  counts: Counts,
  more: More,
  jobs: Schema.Array(JobSummary).annotate({ description: "The requested jobs that exist" }),
}).annotate({ identifier: "Pulse" })
export type Pulse = typeof PulseSchema.Type

/** What waits in a queue. */
const QueueStats = Schema.Struct({
  name: Schema.String,
  paused: Schema.Boolean,
  maxInFlight: Schema.optionalKey(
    Schema.Int.annotate({
      description: "How many of its jobs may run at a time, over all workers; absent: any number",
    }),
  ),
  depth: Count.annotate({
    description: "Waiting tasks that are due, including those that wait in a worker for a handler or a limit",
  }),
  scheduled: Count.annotate({ description: "Tasks that are not due yet" }),
  running: Count.annotate({ description: "Handlers that run" }),
  inFlight: Count.annotate({ description: "Tasks that workers have: they run, or wait there" }),
  oldest: Schema.optionalKey(
    Schema.String.annotate({ description: "When the oldest task that no worker has taken was submitted" }),
  ),
  oldestAge: Schema.optionalKey(Schema.Finite.annotate({ description: "How long it has waited, in seconds" })),
})
export type QueueStats = typeof QueueStats.Type

const QueueDetails = Schema.Struct({
  ...QueueStats.fields,
  pausedSince: Schema.optionalKey(Schema.String),
  pausedBy: Schema.optionalKey(Schema.String.annotate({ description: "Name of the token that paused it" })),
  limitedSince: Schema.optionalKey(Schema.String),
  limitedBy: Schema.optionalKey(Schema.String.annotate({ description: "Name of the token that set `maxInFlight`" })),
  perMinute: Schema.optionalKey(
    Schema.Struct({ in: Schema.Finite, out: Schema.Finite }).annotate({
      description: "Tasks that arrived and were done, over the last five minutes",
    }),
  ),
  trend: Schema.optionalKey(Schema.Literals(["empty", "steady", "growing", "draining"])),
  emptyAt: Schema.optionalKey(
    Schema.String.annotate({ description: "When the queue will be empty at the current rate" }),
  ),
  handlers: Count.annotate({ description: "Total concurrency of the workers that consume it" }),
  workers: Count,
}).annotate({ identifier: "Queue" })
export type QueueDetails = typeof QueueDetails.Type

export const QueueList = Schema.Struct({ queues: Schema.Array(QueueDetails) }).annotate({ identifier: "QueueList" })

const held = {
  running: Count.annotate({ description: "Permits held by live workers" }),
  held: Count.annotate({
    description: "Tasks that wait because of the limit, in workers or in their queue, as the workers report",
  }),
  oldest: Schema.optionalKey(
    Schema.Finite.annotate({ description: "The longest wait of a worker for a permit, in seconds" }),
  ),
}

const Limit = Schema.Struct({
  task: Schema.String.annotate({ description: "`actor.method`" }),
  rate: Schema.optionalKey(Schema.String.annotate({ description: "As `10/m`" })),
  concurrency: Schema.optionalKey(Count),
  keyed: Schema.Boolean.annotate({ description: "Whether each value of a key has its own limit" }),
  ...held,
  keys: Schema.optionalKey(Schema.Struct({ total: Count }).annotate({ description: "Recently seen values" })),
}).annotate({ identifier: "Limit" })
export type Limit = typeof Limit.Type

export const LimitList = Schema.Struct({
  limits: Schema.Array(Limit),
  more: Schema.Boolean.annotate({ description: "Whether there are more key values than were read" }),
}).annotate({ identifier: "LimitList" })

const LimitKey = Schema.Struct({
  key: Schema.String.annotate({
    description: "Long values are shown as `#` and their hash, values that the method hides as `***`",
  }),
  ...held,
  nextFree: Schema.optionalKey(
    Schema.String.annotate({ description: "When the rate allows the next start, ISO 8601", format: "date-time" }),
  ),
}).annotate({ identifier: "LimitKey" })
export type LimitKey = typeof LimitKey.Type

export const LimitKeys = Schema.Struct({ keys: Schema.Array(LimitKey), next }).annotate({ identifier: "LimitKeys" })
