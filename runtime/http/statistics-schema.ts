/** Schemas of what is told about the board over time. The types of the handlers and the OpenAPI document are made from them. */
import * as Schema from "effect/Schema"

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
