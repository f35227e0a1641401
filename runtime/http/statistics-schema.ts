/** Schemas of the statistics. The types of the handlers and the OpenAPI document are made from them. */
import * as Schema from "effect/Schema"
import { Count, JobSummary } from "../jobs/responses.ts"
import { FINDING_CODES } from "../statistics/findings.ts"
import { next } from "./schema.ts"

export const Time = Schema.String.annotate({ description: "ISO 8601, in UTC", format: "date-time" })
const Points = Schema.Array(Schema.NullOr(Schema.Finite))

export const partial = Schema.optionalKey(
  Schema.Literal(true).annotate({
    description: "Not all could be read in time: ask again, and it is read on from there",
  }),
)

export const SeriesSchema = Schema.Struct({
  from: Time,
  to: Time,
  step: Schema.Finite.annotate({ description: "Length of a point, in seconds" }),
  series: Schema.Array(
    Schema.Struct({
      key: Schema.String.annotate({ description: "What it is of: `ok`, `failed`, `other`; a task, queue or version" }),
      points: Schema.Union([Points, Schema.Struct({ p50: Points, p95: Points, p99: Points })]).annotate({
        description: "Numbers, or percentiles in seconds, ± 5 %",
      }),
    }),
  ),
  marks: Schema.Array(
    Schema.Struct({ at: Time, kind: Schema.Literals(["version", "lost"]), text: Schema.String }).annotate({
      identifier: "Mark",
    }),
  ),
  partial,
}).annotate({ identifier: "Series" })

const cause = {
  fingerprint: Schema.String,
  name: Schema.String.annotate({ description: "Name of the error" }),
  template: Schema.String.annotate({ description: "Its message without what differs: `order <n> is not there`" }),
  reason: Schema.String,
  tasks: Schema.Array(Schema.String),
  count: Count.annotate({ description: "Attempts that failed in the range" }),
  jobs: Schema.Struct({ failed: Count, retrying: Count, dead: Count }).annotate({
    description: "What became of their jobs then",
  }),
  first: Time,
  last: Time,
  status: Schema.Literals(["new", "back", "ongoing", "quiet"]),
  frame: Schema.optionalKey(Schema.String.annotate({ description: "Function and file that threw it" })),
  spark: Schema.Array(Count).annotate({ description: "Attempts that failed in each thirtieth of the range" }),
  sample: Schema.Array(Schema.String).annotate({ description: "Ids of the newest jobs, 3 at most" }),
}

export const ErrorList = Schema.Struct({
  errors: Schema.Array(Schema.Struct(cause).annotate({ identifier: "ErrorCause" })),
  next,
  partial,
}).annotate({ identifier: "ErrorList" })

const Shares = Schema.Array(Schema.Struct({ key: Schema.String, count: Count }))

export const ErrorDetails = Schema.Struct({
  ...cause,
  ids: Schema.Array(Schema.String).annotate({ description: "Ids of the newest jobs, 100 at most" }),
  by: Schema.Struct({ version: Shares, worker: Shares, attempt: Shares, queue: Shares }).annotate({
    description: "The five largest of each, and `(other)`",
  }),
  traceback: Schema.optionalKey(Schema.String.annotate({ description: "Of one of the newest jobs" })),
}).annotate({ identifier: "ErrorDetails" })

const Percentiles = Schema.Struct({ p50: Schema.Finite, p95: Schema.Finite, p99: Schema.Finite }).annotate({
  description: "In seconds, ± 5 %",
})

const Counts = Schema.Record(Schema.String, Count).annotate({
  description: "Jobs by state; of them `dead` letters, and `retrying`: those that wait for another attempt",
})
const More = Schema.Array(Schema.String).annotate({ description: "Names of counts that may be higher" })

export const FindingSchema = Schema.Struct({
  code: Schema.Literals(FINDING_CODES),
  severity: Schema.Literals(["bad", "warn"]),
  title: Schema.String.annotate({ description: "For people, in a sentence" }),
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

export const StatsSchema = Schema.Struct({
  at: Time,
  counts: Counts,
  more: More,
  asOf: Time.annotate({ description: "When the oldest of the counts was made" }),
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
  verdict: Schema.String.annotate({ description: "What the findings say, in one sentence" }),
  findings: Schema.Array(FindingSchema),
  partial,
}).annotate({ identifier: "Stats" })

const numbers = {
  perMinute: Schema.Finite.annotate({ description: "Attempts that ended, a minute" }),
  failed: Count.annotate({ description: "Attempts that failed, those that are tried again included" }),
  failRate: Schema.Finite.annotate({ description: "0 to 1" }),
  wait: Schema.optionalKey(Percentiles),
  run: Schema.optionalKey(Percentiles),
}

export const TaskList = Schema.Struct({
  tasks: Schema.Array(
    Schema.Struct({
      task: Schema.String,
      queue: Schema.String.annotate({ description: "From which most of its attempts came" }),
      ...numbers,
      share: Schema.Finite.annotate({ description: "Its part of the time that handlers ran, 0 to 1" }),
      before: Schema.optionalKey(Schema.Struct(numbers).annotate({ description: "The range before" })),
      spark: Schema.Array(Count).annotate({ description: "Attempts that ended in each thirtieth of the range" }),
    }).annotate({ identifier: "TaskStats" }),
  ),
  next,
  partial,
}).annotate({ identifier: "TaskList" })

export const PulseSchema = Schema.Struct({
  at: Time,
  counts: Counts,
  more: More,
  jobs: Schema.Array(JobSummary).annotate({ description: "Those of the jobs that were asked for which are there" }),
}).annotate({ identifier: "Pulse" })
