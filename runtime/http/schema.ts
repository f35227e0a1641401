/**
 * Schemas of responses that only the HTTP server needs; those that clients read as well are in `jobs/responses.ts`. The types
 * of the handlers and the OpenAPI document are made from them.
 */
import * as Schema from "effect/Schema"
import { ActorDescription, WorkerDescription } from "../cluster/directory.ts"
import { SCOPES } from "../config/groups.ts"
import { Count, Durability, JobSummary, PartlyDone, progress, StateSchema, transition } from "../jobs/responses.ts"
import type { JobView } from "../jobs/view.ts"

export const next = Schema.optionalKey(
  Schema.String.annotate({ description: "The `cursor` of the next page; absent on the last" }),
)

/** A number that was counted up to a bound. */
export const Total = Schema.Struct({
  value: Count,
  relation: Schema.Literals(["eq", "gte"]).annotate({ description: "`gte`: there are at least so many" }),
}).annotate({ identifier: "Total" })

export const JobList = Schema.Struct({
  jobs: Schema.Array(JobSummary),
  next,
  partial: Schema.optionalKey(
    Schema.Literal(true).annotate({ description: "The search was cut after its `budget`: go on with `next`" }),
  ),
  scanned: Schema.optionalKey(
    Count.annotate({ description: "How many rows, entries or messages were read, where the transport tells" }),
  ),
  total: Schema.optionalKey(Total),
}).annotate({ identifier: "JobList" })

export const JobCount = Schema.Struct({
  count: Count,
  more: Schema.Boolean.annotate({ description: "Whether there are more than `count`" }),
}).annotate({ identifier: "JobCount" })

export const WaitingJobs = Schema.Struct({
  ids: Schema.Array(Schema.String).annotate({ description: "Ids of jobs, in the order in which they will be taken" }),
}).annotate({ identifier: "WaitingJobs" })

export const JobTree = Schema.Struct({
  root: Schema.String,
  nodes: Schema.Array(
    Schema.Struct({
      id: Schema.String,
      name: Schema.String,
      state: StateSchema,
      times: JobSummary.fields.times,
      parentId: Schema.optionalKey(Schema.String),
      group: Schema.optionalKey(Schema.String),
      kind: Schema.Literals(["root", "child", "callback", "errback", "chain"]),
      after: Schema.optionalKey(
        Schema.Array(Schema.String).annotate({ description: "Jobs that it waits for, or waited for" }),
      ),
    }).annotate({ identifier: "TreeNode" }),
  ),
  more: Schema.Boolean.annotate({ description: "Whether there are more jobs than these" }),
}).annotate({ identifier: "JobTree" })

export const QueuePlace = Schema.Struct({
  position: Schema.NullOr(Count).annotate({
    description: "How many jobs are taken before it; `null` where it does not wait in a queue",
  }),
  more: Schema.Boolean.annotate({ description: "Whether it is further back than `position`" }),
}).annotate({ identifier: "QueuePlace" })
export const GroupList = Schema.Struct({
  groups: Schema.Array(Schema.String.annotate({ description: "Name of the group" })),
  next,
}).annotate({ identifier: "GroupList" })

export const Group = Schema.Struct({
  id: Schema.String,
  total: Count.annotate({ description: "How many jobs it has" }),
  states: Schema.Record(Schema.String, Count).annotate({ description: "How many of them are in each state" }),
}).annotate({ identifier: "Group" })

export const BulkReport = Schema.Struct({
  changed: Count.annotate({ description: "How many jobs were changed" }),
  ids: Schema.Array(Schema.String).annotate({ description: "Ids of those that were changed" }),
  refused: Schema.Array(Schema.Struct({ id: Schema.String, code: Schema.String, detail: Schema.String })).annotate({
    description: "Jobs that could not be changed, and why",
  }),
  more: Schema.Boolean.annotate({ description: "Whether more jobs match: call again with `cursor`" }),
  next,
  partial: Schema.optionalKey(PartlyDone),
}).annotate({ identifier: "BulkReport" })

const Tally = Schema.Record(Schema.String, Count)

export const BulkPlan = Schema.Struct({
  matches: Total.annotate({ description: "How many jobs match; up to 10,000 are read, within the budget" }),
  will: Count.annotate({ description: "How many of them will be changed" }),
  refused: Tally.annotate({ description: "How many cannot be changed, by the code of the error" }),
  changed: Count.annotate({ description: "How many have come into another state since `until`, and are left alone" }),
  by: Schema.Struct({ task: Tally, queue: Tally }).annotate({
    description: "Of which tasks and queues those are that will be changed, the 20 with the most of them",
  }),
  warnings: Schema.Array(
    Schema.Struct({
      code: Schema.String.annotate({
        description: "`no-worker`, `paused`, `still-failing`, `limited`, `not-idempotent`, `long`",
      }),
      text: Schema.String,
    }),
  ),
  sample: Schema.Array(Schema.String).annotate({ description: "Ids of the newest" }),
  until: Schema.String.annotate({ description: "Give it to the calls that follow: what changes later is not meant" }),
}).annotate({ identifier: "BulkPlan", description: "What a call without `dryRun` would do" })

export const JobEventSchema = Schema.Union([
  Schema.Struct({ type: Schema.Literal("transition"), ...transition }),
  Schema.Struct({ type: Schema.Literal("progress"), ...progress }),
]).annotate({ identifier: "JobEvent" })

export const BoardEvent = Schema.Struct({ job: JobSummary, event: JobEventSchema }).annotate({
  identifier: "BoardEvent",
})

/** An event in Celery's form: three fields that every event has, and further ones by its type. */
export const WorkerEvent = Schema.StructWithRest(
  Schema.Struct({
    type: Schema.String,
    hostname: Schema.String.annotate({ description: "Who tells it: worker@host" }),
    timestamp: Schema.Finite.annotate({ description: "Seconds since the epoch" }),
  }),
  [Schema.Record(Schema.String, Schema.Unknown)],
).annotate({ identifier: "WorkerEvent" })

export const QueueList = Schema.Struct({
  queues: Schema.Array(
    Schema.Struct({
      name: Schema.String,
      paused: Schema.Boolean,
      pausedSince: Schema.optionalKey(Schema.String),
      pausedBy: Schema.optionalKey(Schema.String.annotate({ description: "Name of the token that paused it" })),
      depth: Count.annotate({ description: "Tasks that are due and wait" }),
      scheduled: Count.annotate({ description: "Tasks that are not due yet" }),
      inFlight: Count.annotate({ description: "Tasks in the hands of workers" }),
      oldest: Schema.optionalKey(Schema.String.annotate({ description: "When the oldest waiting task was submitted" })),
      oldestAge: Schema.optionalKey(Schema.Finite.annotate({ description: "How long it has waited, in seconds" })),
      perMinute: Schema.optionalKey(
        Schema.Struct({ in: Schema.Finite, out: Schema.Finite }).annotate({
          description: "Tasks that came and went, over the last five minutes",
        }),
      ),
      trend: Schema.optionalKey(Schema.Literals(["empty", "steady", "growing", "draining"])),
      emptyAt: Schema.optionalKey(Schema.String.annotate({ description: "When nothing will wait, if it goes on so" })),
      handlers: Count.annotate({ description: "Handlers of the workers that take from it" }),
      workers: Count,
    }).annotate({ identifier: "Queue" }),
  ),
}).annotate({ identifier: "QueueList" })

export const WorkerList = Schema.Struct({
  workers: Schema.Array(
    Schema.Struct({
      ...WorkerDescription.fields,
      state: Schema.Literals([...WorkerDescription.fields.state.literals, "stopped", "lost"]),
      lost: Schema.optionalKey(
        Schema.Struct({
          lastSeen: Schema.String,
          goodbye: Schema.Boolean.annotate({ description: "Whether it stopped in order" }),
        }).annotate({ description: "It is gone, and this is what was last seen of it" }),
      ),
    }).annotate({ identifier: "Worker" }),
  ),
}).annotate({ identifier: "WorkerList" })

export const ActorList = Schema.Struct({
  actors: Schema.Array(ActorDescription.annotate({ identifier: "Actor" })),
}).annotate({ identifier: "ActorList" })

export const Me = Schema.Struct({
  name: Schema.optionalKey(Schema.String.annotate({ description: "The name that the token has, if any" })),
  scopes: Schema.Array(Schema.Literals(SCOPES)).annotate({
    description: "What it may do, with the scopes that others include; all where no tokens are set",
  }),
  open: Schema.Boolean.annotate({ description: "Whether the service asks for no tokens" }),
  features: Schema.Array(Schema.String).annotate({
    description: "What this service can do: the first word of each path under `/v1`, such as `schedules`",
  }),
  zone: Schema.String.annotate({ description: "The time zone of times that name none" }),
}).annotate({ identifier: "Me" })

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
    body: Count.annotate({ description: "Largest task, in bytes" }),
    batchBody: Count.annotate({ description: "Largest array of tasks, in bytes" }),
    batch: Count.annotate({ description: "Most tasks in an array" }),
    page: Count.annotate({ description: "Most jobs on a page, or in one bulk call" }),
    wait: Count.annotate({ description: "Longest wait for a result, in seconds" }),
    idempotencyKey: Count.annotate({ description: "How long an Idempotency-Key is kept, in seconds" }),
  }),
}).annotate({ identifier: "Info" })

export const Health = Schema.Struct({ status: Schema.Literal("ok") }).annotate({ identifier: "Health" })
export const Readiness = Schema.Struct({ ready: Schema.Boolean }).annotate({ identifier: "Readiness" })

/** The fields of `meta` to set; `null` removes one (RFC 7396). */
export const MetaPatch = Schema.Record(Schema.String, Schema.Unknown).annotate({ identifier: "MetaPatch" })

export const summaryOf = ({ result: _result, transitions: _transitions, ...rest }: JobView): typeof JobSummary.Type =>
  rest
