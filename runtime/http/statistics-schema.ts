/** Schemas of what is told about the board over time. The types of the handlers and the OpenAPI document are made from them. */
import * as Schema from "effect/Schema"
import { Count } from "../jobs/responses.ts"
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
