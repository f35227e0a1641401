/**
 * Schemas of the HTTP responses about jobs and about failed requests. The types of server, page and client
 * over HTTP are made from them.
 */
import * as Schema from "effect/Schema"
import * as Struct from "effect/Struct"
import { ERROR_CODES } from "../errors.ts"
import { Count, JobId, Time } from "../options/fields.ts"
import { noState, STATES } from "../protocol/state.ts"

const Seconds = Schema.Finite

export const PartlyDone = Schema.Struct({
  done: Count.annotate({ description: "Number of jobs that this call has changed" }),
  left: Count.annotate({ description: "Number of jobs left, counted at the end of the call" }),
  more: Schema.optionalKey(Schema.Literal(true).annotate({ description: "There are more than `left`" })),
}).annotate({ identifier: "PartlyDone", description: "The call ended before it was done: call again" })
export type PartlyDone = typeof PartlyDone.Type

/** A job whose dependents are not all deleted yet, so that it is there still. */
export const Forgotten = Schema.Struct({ partial: PartlyDone }).annotate({ identifier: "Forgotten" })

export const StateSchema = Schema.Literals(STATES).annotate({ identifier: "State", message: noState() })

export const Durability = Schema.Literals(["none", "process", "server", "fsync", "quorum"]).annotate({
  identifier: "Durability",
  description:
    "Failures that an accepted task survives: nothing, a crash of the process, of the broker, of the machine (fsync), of a minority of machines (quorum)",
})

/** Why a job failed. */
const JobErrorSchema = Schema.Struct({
  name: Schema.String,
  message: Schema.String,
  reason: Schema.String,
  traceback: Schema.optionalKey(Schema.String),
  field: Schema.optionalKey(Schema.String),
  cause: Schema.optionalKey(Schema.Struct({ name: Schema.String, message: Schema.String })),
  errors: Schema.optionalKey(
    Schema.Array(Schema.Struct({ name: Schema.String, message: Schema.String })).annotate({
      description: "The first errors of an AggregateError, and the number of further ones",
    }),
  ),
}).annotate({ identifier: "JobError", description: "Why a job failed" })

export const transition = {
  id: Schema.String.annotate({ description: "`<run>.<n>`; a stream of events resumes after it" }),
  at: Time,
  state: StateSchema,
  attempt: Schema.optionalKey(Count),
  worker: Schema.optionalKey(Schema.String),
  reason: Schema.optionalKey(Schema.String),
  due: Schema.optionalKey(Time),
  error: Schema.optionalKey(
    Schema.Struct({ name: Schema.String, message: Schema.String }).annotate({
      description: "The error of an attempt that is followed by another one",
    }),
  ),
}
export const TransitionSchema = Schema.Struct(transition).annotate({ identifier: "Transition" })

export const progress = {
  fraction: Schema.Finite.annotate({ description: "0 to 1" }),
  detail: Schema.optionalKey(Schema.Unknown),
  at: Time,
}

/** The fields of a job in lists. */
const summary = {
  id: Schema.String,
  task: Schema.String,
  meth: Schema.NullOr(Schema.String),
  name: Schema.String.annotate({ description: "Display name: the `shadow` of the task, or task and method" }),
  queue: Schema.String,
  priority: Schema.Int,
  front: Schema.optionalKey(Schema.Literal(true)),
  state: StateSchema,
  celeryState: Schema.String.annotate({ description: "Celery's name of the state" }),
  run: Count,
  attempts: Count,
  retries: Count,
  progress: Schema.optionalKey(Schema.Struct(progress)),
  times: Schema.Struct({
    submitted: Time,
    due: Schema.optionalKey(Time),
    expires: Schema.optionalKey(Time),
    enqueued: Schema.optionalKey(Time.annotate({ description: "When it last entered its queue, ready to start" })),
    started: Schema.optionalKey(Time.annotate({ description: "Start of its last attempt" })),
    ended: Schema.optionalKey(Time),
    modified: Schema.optionalKey(Time),
    keptUntil: Schema.optionalKey(
      Time.annotate({ description: "When an ended job is removed; absent: kept indefinitely" }),
    ),
  }),
  durations: Schema.optionalKey(
    Schema.Struct({
      waited: Schema.optionalKey(
        Seconds.annotate({ description: "From entering its queue to the start of its last attempt" }),
      ),
      ran: Schema.optionalKey(Seconds.annotate({ description: "From the start of its last attempt to its end" })),
      total: Schema.optionalKey(Seconds.annotate({ description: "From its submission to its end" })),
    }).annotate({ description: "In seconds" }),
  ),
  repeat: Schema.optionalKey(
    Schema.Struct({ times: Count, done: Count, left: Count }).annotate({
      description: "How often the job runs again after a success",
    }),
  ),
  timeLimit: Schema.optionalKey(
    Schema.Struct({ hard: Schema.optionalKey(Schema.NullOr(Seconds)), soft: Schema.optionalKey(Seconds) }).annotate({
      description: "The limits that the task sets, in seconds; `null`: none. Absent: the limits of its method",
    }),
  ),
  error: Schema.optionalKey(JobErrorSchema),
  fingerprint: Schema.optionalKey(
    Schema.String.annotate({
      description: "Identifies the cause of the error: the same for all jobs that failed in the same way",
    }),
  ),
  dead: Schema.optionalKey(Schema.String.annotate({ description: "On dead letters: why the task was given up" })),
  reverting: Schema.optionalKey(
    Schema.Literals(["failed", "cancelled"]).annotate({
      description: "Why its steps are being reverted; absent if they are not",
    }),
  ),
  reverted: Schema.optionalKey(
    Schema.Literal(true).annotate({ description: "Set if all its steps with a revert were reverted" }),
  ),
  unreverted: Schema.optionalKey(
    Schema.Array(Schema.String).annotate({ description: "Names of its steps with a revert that were not reverted" }),
  ),
  waits: Schema.optionalKey(
    Schema.Struct({
      until: Time.annotate({ description: "When it continues at the latest, or looks again" }),
      signals: Schema.optionalKey(Schema.Array(Schema.String)),
      jobs: Schema.optionalKey(Schema.Array(Schema.String)),
    }).annotate({ description: "What its handler waits for; absent if it does not wait" }),
  ),
  signals: Schema.optionalKey(
    Schema.Array(Schema.Struct({ name: Schema.String, at: Time })).annotate({
      description: "Signals that its handler has not taken yet, oldest first",
    }),
  ),
  worker: Schema.optionalKey(Schema.String),
  parentId: Schema.optionalKey(Schema.String),
  rootId: Schema.optionalKey(Schema.String),
  group: Schema.optionalKey(Schema.String),
  after: Schema.optionalKey(
    Schema.Struct({
      ids: Schema.Array(Schema.String),
      allowFailure: Schema.optionalKey(Schema.Boolean),
      waiting: Schema.optionalKey(
        Schema.Array(Schema.String).annotate({ description: "The jobs that have not ended as required" }),
      ),
    }).annotate({ description: "The jobs that it waits for, or waited for before it could start" }),
  ),
  chord: Schema.optionalKey(
    Schema.Struct({
      size: Count,
      allowFailure: Schema.optionalKey(Schema.Boolean),
      immutable: Schema.optionalKey(Schema.Boolean),
      waiting: Schema.optionalKey(Schema.Boolean.annotate({ description: "Not all of its members have ended" })),
    }).annotate({ description: "On the body of a chord: the group that it waits for, or waited for" }),
  ),
  description: Schema.optionalKey(
    Schema.String.annotate({
      description: "The description by the submitter; if there is none and a single job is read, the call as text",
    }),
  ),
  details: Schema.optionalKey(Schema.Record(Schema.String, Schema.Unknown)),
  book: Schema.optionalKey(
    Schema.Struct({ name: Schema.String, uuid: Schema.String }).annotate({
      description: "The book to which the task belongs",
    }),
  ),
  sender: Schema.optionalKey(
    Schema.String.annotate({
      description:
        "Name of the client that submitted it; without one, and if a single job is read and its task is kept, the process that submitted it",
    }),
  ),
  meta: Schema.optionalKey(Schema.Record(Schema.String, Schema.Unknown)),
}

export const JobSummary = Schema.Struct(summary).annotate({
  identifier: "JobSummary",
  description: "A job without the fields that can be long: its result and its transitions",
})
export type JobSummary = typeof JobSummary.Type

const ResultSchema = Schema.optionalKey(
  Schema.Unknown.annotate({
    description:
      'The return value of the method. Values that JSON lacks are `{"__type__": …, "__value__": …}`: `int`, `float` (not finite), `base64`, `datetime`, `date`, `time`, `decimal`, `uuid`',
  }),
)

const AttemptSchema = Schema.Struct({
  run: Count,
  attempt: Count,
  worker: Schema.optionalKey(Schema.String),
  version: Schema.optionalKey(
    Schema.String.annotate({ description: "Version of the application, if the worker was given one" }),
  ),
  queued: Schema.optionalKey(Time.annotate({ description: "When the job entered its queue for this attempt" })),
  started: Time,
  ended: Schema.optionalKey(Time),
  outcome: Schema.optionalKey(
    Schema.String.annotate({
      description:
        "The state in which the job ended, `failed` even if another attempt follows, `suspended` if it continues later, `handed-back`, or `lost` with its worker; absent while the attempt runs",
    }),
  ),
  reason: Schema.optionalKey(Schema.String),
  error: Schema.optionalKey(
    Schema.Struct({
      ...JobErrorSchema.fields,
      reason: Schema.optionalKey(Schema.String),
    }).annotate({ description: "For earlier attempts, name and message only" }),
  ),
}).annotate({ identifier: "Attempt" })
export type Attempt = typeof AttemptSchema.Type

/** The input of a job, where it is asked for by itself. */
const InputSchema = Schema.Struct({
  value: Schema.optionalKey(Schema.Unknown),
  raw: Schema.optionalKey(
    Schema.String.annotate({
      description: "Instead of `value`: the start of a long value as JSON, or bytes in base64",
    }),
  ),
  encoding: Schema.optionalKey(Schema.Literals(["json", "base64"]).annotate({ description: "The form of `raw`" })),
  bytes: Count,
  truncated: Schema.Boolean.annotate({ description: "Whether it has more than the 64 KiB that are shown" }),
  redacted: Schema.Array(Schema.String).annotate({ description: "Names of the values that the method hides" }),
}).annotate({ identifier: "JobInput" })
export type JobInput = typeof InputSchema.Type

/** The fields of a job that its record tells. */
const recorded = {
  ...summary,
  result: ResultSchema,
  transitions: Schema.Array(TransitionSchema).annotate({ description: "Oldest first, the last 50" }),
}
export const RECORDED_FIELDS = Struct.keys(recorded)

export const Job = Schema.Struct({
  ...recorded,
  input: Schema.optionalKey(
    Schema.Unknown.annotate({
      description:
        "If a single job is read and its task is kept (not after a success): the input, without the values that the method hides with `redact`",
    }),
  ),
  headers: Schema.optionalKey(
    Schema.Record(Schema.String, Schema.Unknown).annotate({ description: "Custom headers, under the same conditions" }),
  ),
  ttl: Schema.optionalKey(
    Seconds.annotate({ description: "The retry policy that the task sets, under the same conditions" }),
  ),
  resultTtl: Schema.optionalKey(
    Seconds.annotate({ description: "In seconds, under the same conditions; -1: kept indefinitely" }),
  ),
  failureTtl: Schema.optionalKey(
    Seconds.annotate({ description: "In seconds, under the same conditions; -1: kept indefinitely" }),
  ),
}).annotate({ identifier: "Job" })
export type Job = typeof Job.Type

/** A job with what was asked for. */
export const JobWith = Schema.Struct({
  ...Job.fields,
  attempts: Schema.Union([
    Count,
    Schema.Array(AttemptSchema).annotate({ description: "With `with=attempts`: the last 20, oldest first" }),
  ]),
  input: Schema.optionalKey(Schema.Union([InputSchema, Schema.Unknown])),
  retry: Schema.optionalKey(
    Schema.Record(Schema.String, Schema.Unknown).annotate({
      description: "With `with=input`: the retry policy that the task asks for",
    }),
  ),
}).annotate({ identifier: "JobWith", description: "A job, with the parts requested by `with`" })
export type JobWith = typeof JobWith.Type
/** A job with its attempts. */
export type FullJob = Omit<JobWith, "attempts"> & {
  readonly attempts: Exclude<JobWith["attempts"], number>
}

/** How the last runs of a job ended. */
export const RunResults = Schema.Struct({
  id: Schema.String,
  results: Schema.Array(
    Schema.Struct({
      run: Count,
      type: Schema.Literals(["SUCCESSFUL", "FAILED", "STOPPED", "CANCELLED", "EXPIRED"]),
      attempts: Count.annotate({ description: "Attempts of the job up to this run" }),
      started: Schema.optionalKey(Time),
      ended: Time,
      ran: Schema.optionalKey(Seconds.annotate({ description: "In seconds" })),
      worker: Schema.optionalKey(Schema.String),
      execution: Schema.optionalKey(
        Schema.String.annotate({
          description: "Identifies the attempt that ended the run, among all attempts of the job",
        }),
      ),
      result: ResultSchema,
      omitted: Schema.optionalKey(
        Schema.Literal(true).annotate({
          description: "Its result had more than 64 KiB and was kept only until the next run",
        }),
      ),
      error: Schema.optionalKey(JobErrorSchema),
    }).annotate({ identifier: "RunResult" }),
  ).annotate({ description: "Newest first, the last 10" }),
}).annotate({ identifier: "RunResults", description: "How the last runs of a job ended" })

/** How a job ended. */
const ended = {
  state: StateSchema,
  result: ResultSchema,
  error: Schema.optionalKey(JobErrorSchema),
}

export const JobResult = Schema.Struct({ id: Schema.String, ...ended }).annotate({
  identifier: "JobResult",
  description: "How a job ended: `result` if it succeeded, `error` if it failed",
})

export const Pending = Schema.Struct({ id: Schema.String, state: StateSchema }).annotate({ identifier: "Pending" })

const receipt = {
  id: JobId,
  state: StateSchema.annotate({
    description: "`queued`, `scheduled` or `deferred`; for a duplicate, the current state of its job",
  }),
  href: Schema.String,
  durability: Durability,
  duplicate: Schema.optionalKey(
    Schema.Literal(true).annotate({ description: "The job existed already; nothing was added" }),
  ),
}
export const ReceiptSchema = Schema.Struct(receipt).annotate({ identifier: "Receipt" })
export const ReceiptWithResult = Schema.Struct({ ...receipt, ...ended }).annotate({ identifier: "ReceiptWithResult" })
const members = {
  code: Schema.Literals(ERROR_CODES).annotate({ description: "Stable code for programs" }),
  detail: Schema.String.annotate({ description: "The problem and its remedy, for people" }),
  field: Schema.optionalKey(Schema.String.annotate({ description: "The invalid field, parameter or header" })),
  index: Schema.optionalKey(Schema.Int.annotate({ description: "Index of the array element" })),
  id: Schema.optionalKey(Schema.String.annotate({ description: "Id of the job" })),
  outcome: Schema.optionalKey(
    Schema.Literals(["none", "unknown"]).annotate({
      description: "Whether a failed submission may have been accepted; it is safe to submit it again with the same id",
    }),
  ),
  scope: Schema.optionalKey(
    Schema.String.annotate({ description: "With `forbidden`: the scope that the token lacks" }),
  ),
}

/** What went wrong with one element of an array. */
export const ItemProblem = Schema.Struct({ status: Schema.Int, ...members }).annotate({ identifier: "ItemProblem" })
export type ItemProblem = typeof ItemProblem.Type

export const Problem = Schema.Struct({
  type: Schema.String,
  title: Schema.String,
  status: Schema.Int,
  ...members,
  errors: Schema.optionalKey(
    Schema.Array(ItemProblem).annotate({ description: "One per element, if no element of an array was accepted" }),
  ),
}).annotate({ identifier: "Problem", description: "RFC 9457" })

export const BatchReceipts = Schema.Array(Schema.Union([ReceiptSchema, ItemProblem])).annotate({
  identifier: "BatchReceipts",
  description: "One receipt or error per element, in order",
})
