/** Schemas of what the routes about the service itself answer. */
import * as Schema from "effect/Schema"
import { Durability } from "../jobs/responses.ts"
import { Count } from "../options/fields.ts"

/** An event in Celery's form: three fields that every event has, and further ones by its type. */
export const WorkerEvent = Schema.StructWithRest(
  Schema.Struct({
    type: Schema.String,
    hostname: Schema.String.annotate({ description: "The reporting worker: worker@host" }),
    timestamp: Schema.Finite.annotate({ description: "Seconds since the epoch" }),
  }),
  [Schema.Record(Schema.String, Schema.Unknown)],
).annotate({ identifier: "WorkerEvent" })

export const Info = Schema.Struct({
  name: Schema.Literal("callboard"),
  version: Schema.String,
  ready: Schema.Boolean,
  transport: Schema.Struct({
    name: Schema.String,
    durability: Durability,
    capabilities: Schema.Record(Schema.String, Schema.Unknown).annotate({
      description: "As the transport declares them; `null` is unlimited",
    }),
  }),
  limits: Schema.Struct({
    body: Count.annotate({ description: "Maximum size of a task, in bytes" }),
    batchBody: Count.annotate({ description: "Maximum size of an array of tasks, in bytes" }),
    batch: Count.annotate({ description: "Maximum number of tasks in an array" }),
    page: Count.annotate({ description: "Maximum number of jobs on a page, or in one bulk call" }),
    wait: Count.annotate({ description: "Longest wait for a result, in seconds" }),
    idempotencyKey: Count.annotate({ description: "How long an Idempotency-Key is kept, in seconds" }),
  }),
}).annotate({ identifier: "Info" })

export const Health = Schema.Struct({ status: Schema.Literal("ok") }).annotate({ identifier: "Health" })
export const Readiness = Schema.Struct({ ready: Schema.Boolean }).annotate({ identifier: "Readiness" })

export const SignalBody = Schema.Struct({
  value: Schema.optionalKey(Schema.Unknown.annotate({ description: "What the handler gets; `null` if absent" })),
  key: Schema.optionalKey(
    Schema.String.annotate({ description: "Sent again with the same key, the signal counts once" }),
  ),
}).annotate({ identifier: "Signal" })

/** The fields of `meta` to set; `null` removes one (RFC 7396). */
export const MetaPatch = Schema.Record(Schema.String, Schema.Unknown).annotate({ identifier: "MetaPatch" })
