/** What the answers of the HTTP interface look like. The types of the handlers and the OpenAPI document come from here. */
import { Schema } from "effect"
import { ActorDescription, WorkerDescription } from "../cluster/directory.ts"
import { JobId } from "../options/fields.ts"
import { STATES } from "../protocol/state.ts"
import { ItemProblem } from "./problem.ts"

const Time = Schema.String.annotate({ description: "ISO 8601, in UTC", format: "date-time" })
const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

export const StateSchema = Schema.Literals(STATES).annotate({ identifier: "State" })

export const Durability = Schema.Literals(["none", "process", "server", "fsync", "quorum"]).annotate({
  identifier: "Durability",
  description:
    "What an accepted task survives: nothing, the end of the process, of the broker, of the machine (fsync), of a minority of machines (quorum)",
})

/** Why a job failed. */
const JobErrorSchema = Schema.Struct({
  name: Schema.String,
  message: Schema.String,
  reason: Schema.String,
  traceback: Schema.optionalKey(Schema.String),
  field: Schema.optionalKey(Schema.String),
  cause: Schema.optionalKey(Schema.Struct({ name: Schema.String, message: Schema.String })),
}).annotate({ identifier: "JobError", description: "Why a job failed" })

const transition = {
  id: Schema.String.annotate({ description: "`<run>.<n>`: where a stream of events resumes after" }),
  at: Time,
  state: StateSchema,
  attempt: Schema.optionalKey(Count),
  worker: Schema.optionalKey(Schema.String),
  reason: Schema.optionalKey(Schema.String),
  due: Schema.optionalKey(Time),
}
export const TransitionSchema = Schema.Struct(transition).annotate({ identifier: "Transition" })

const progress = {
  fraction: Schema.Finite.annotate({ description: "0 to 1" }),
  detail: Schema.optionalKey(Schema.Unknown),
  at: Time,
}

/** What lists say of a job. */
const summary = {
  id: Schema.String,
  task: Schema.String,
  meth: Schema.NullOr(Schema.String),
  name: Schema.String.annotate({ description: "For people: the task's `shadow`, else task and method" }),
  queue: Schema.String,
  priority: Schema.Int,
  front: Schema.optionalKey(Schema.Literal(true)),
  state: StateSchema,
  celeryState: Schema.String.annotate({ description: "The word that a Celery client knows for the state" }),
  run: Count,
  attempts: Count,
  retries: Count,
  progress: Schema.optionalKey(Schema.Struct(progress)),
  times: Schema.Struct({
    submitted: Time,
    due: Schema.optionalKey(Time),
    expires: Schema.optionalKey(Time),
    started: Schema.optionalKey(Time),
    ended: Schema.optionalKey(Time),
  }),
  error: Schema.optionalKey(JobErrorSchema),
  dead: Schema.optionalKey(Schema.String.annotate({ description: "On dead letters: why the task was given up" })),
  worker: Schema.optionalKey(Schema.String),
  parentId: Schema.optionalKey(Schema.String),
  rootId: Schema.optionalKey(Schema.String),
  group: Schema.optionalKey(Schema.String),
  after: Schema.optionalKey(
    Schema.Struct({
      ids: Schema.Array(Schema.String),
      allowFailure: Schema.optionalKey(Schema.Boolean),
      waiting: Schema.optionalKey(
        Schema.Array(Schema.String).annotate({ description: "Those that have not ended as they must" }),
      ),
    }).annotate({ description: "Jobs that it waits for, or waited for before it could start" }),
  ),
  description: Schema.optionalKey(Schema.String),
  meta: Schema.optionalKey(Schema.Record(Schema.String, Schema.Unknown)),
}

export const JobSummary = Schema.Struct(summary).annotate({
  identifier: "JobSummary",
  description: "A job without what may be long: its result and its transitions",
})

export const Job = Schema.Struct({
  ...summary,
  result: Schema.optionalKey(Schema.Unknown),
  transitions: Schema.Array(TransitionSchema).annotate({ description: "Oldest first, the last 50" }),
}).annotate({ identifier: "Job" })

/** How a job ended. */
const ended = {
  state: StateSchema,
  result: Schema.optionalKey(Schema.Unknown),
  error: Schema.optionalKey(JobErrorSchema),
}

export const JobResult = Schema.Struct({ id: Schema.String, ...ended }).annotate({
  identifier: "JobResult",
  description: "How a job ended: `result` where it succeeded, `error` where it failed",
})

export const Pending = Schema.Struct({ id: Schema.String, state: StateSchema }).annotate({ identifier: "Pending" })

const receipt = {
  id: JobId,
  state: StateSchema,
  href: Schema.String,
  durability: Durability,
  duplicate: Schema.optionalKey(
    Schema.Literal(true).annotate({ description: "The job was known already: nothing was added" }),
  ),
}
export const ReceiptSchema = Schema.Struct(receipt).annotate({ identifier: "Receipt" })
export const ReceiptWithResult = Schema.Struct({ ...receipt, ...ended }).annotate({ identifier: "ReceiptWithResult" })
export const BatchReceipts = Schema.Array(Schema.Union([ReceiptSchema, ItemProblem])).annotate({
  identifier: "BatchReceipts",
  description: "One receipt or error per element, in order",
})

const next = Schema.optionalKey(
  Schema.String.annotate({ description: "The `cursor` of the next page; absent on the last" }),
)

export const JobList = Schema.Struct({ jobs: Schema.Array(JobSummary), next }).annotate({ identifier: "JobList" })

export const BulkReport = Schema.Struct({
  changed: Count.annotate({ description: "How many jobs were changed" }),
  refused: Schema.Array(Schema.Struct({ id: Schema.String, code: Schema.String, detail: Schema.String })).annotate({
    description: "Jobs that could not be changed, and why",
  }),
  more: Schema.Boolean.annotate({ description: "Whether more jobs match: call again with `cursor`" }),
  next,
}).annotate({ identifier: "BulkReport" })

export const JobEventSchema = Schema.Union([
  Schema.Struct({ type: Schema.Literal("transition"), ...transition }),
  Schema.Struct({ type: Schema.Literal("progress"), ...progress }),
]).annotate({ identifier: "JobEvent" })

export const BoardEvent = Schema.Struct({ job: JobSummary, event: JobEventSchema }).annotate({
  identifier: "BoardEvent",
})

/** In Celery's form: what every event says, and what its type says beside it. */
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
      depth: Count.annotate({ description: "Tasks that are due and wait" }),
      scheduled: Count.annotate({ description: "Tasks that are not due yet" }),
      inFlight: Count.annotate({ description: "Tasks in the hands of workers" }),
      oldest: Schema.optionalKey(Schema.String.annotate({ description: "When the oldest waiting task was submitted" })),
      oldestAge: Schema.optionalKey(Schema.Finite.annotate({ description: "How long it has waited, in seconds" })),
    }).annotate({ identifier: "Queue" }),
  ),
}).annotate({ identifier: "QueueList" })

export const WorkerList = Schema.Struct({
  workers: Schema.Array(WorkerDescription.annotate({ identifier: "Worker" })),
}).annotate({ identifier: "WorkerList" })

export const ActorList = Schema.Struct({
  actors: Schema.Array(ActorDescription.annotate({ identifier: "Actor" })),
}).annotate({ identifier: "ActorList" })

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
