/** The schema of a submission: it checks HTTP bodies and calls from code, and appears in the OpenAPI document. */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { CallboardError } from "../../errors.ts"
import { decoderOf, type Given } from "../../options/check.ts"
import { Duration, TimeLimitField } from "../../options/duration-field.ts"
import { isName, JobId, Json, Name, Text, whole } from "../../options/fields.ts"
import { resultOf } from "../../options/refusal.ts"
import { RepeatField, RetryField } from "../../options/retry-policy.ts"
import { MAX_PARENTS } from "../../protocol/headers.ts"
import { ChordField } from "./chord.ts"
import { FollowUps } from "./follow-ups.ts"
import { isTask, noTask, withPlainFields } from "./plain-fields.ts"

const JobIds = Schema.Array(Schema.String).check(Schema.isMinLength(1), Schema.isMaxLength(MAX_PARENTS))

/** Jobs to wait for. */
const AfterField = Schema.Union([
  Schema.String,
  JobIds,
  Schema.Struct({
    ids: Schema.Union([Schema.String, JobIds]),
    allowFailure: Schema.optionalKey(Schema.Boolean.annotate({ description: "Start even if they fail" })),
  }),
]).annotate({
  description:
    "Ids of jobs that must succeed before this one starts; until then it is `deferred`. A cancelled job must run again and succeed",
})

/** Everything about a task but its name. */
export const SubmissionFieldsSchema = Schema.Struct({
  meth: Schema.optionalKey(Name.annotate({ description: "Method of the actor; the default is `run`" })),
  input: Schema.optionalKey(
    Schema.Unknown.annotate({ description: "The input of the method: an object, or a single value" }),
  ),
  args: Schema.optionalKey(Schema.Array(Schema.Unknown).annotate({ description: "Positional arguments" })),
  kwargs: Schema.optionalKey(Json.annotate({ description: "Keyword arguments, instead of `input`" })),
  id: Schema.optionalKey(JobId.annotate({ description: "Job id; it is safe to submit again with the same id" })),
  unique: Schema.optionalKey(
    Schema.Literals(["id", true]).annotate({
      description: "Refuse the task as `job-exists` while a job with its id is kept, even one with the same task",
    }),
  ),
  queue: Schema.optionalKey(Name),
  priority: Schema.optionalKey(whole({ min: 0, max: 9 }).annotate({ description: "0–9, 9 first" })),
  front: Schema.optionalKey(Schema.Boolean.annotate({ description: "Ahead of all priorities" })),
  delay: Schema.optionalKey(Duration.annotate({ description: "Delay before the job starts" })),
  eta: Schema.optionalKey(Schema.String.annotate({ description: "The earliest start: ISO 8601, UTC if no zone" })),
  expires: Schema.optionalKey(
    Schema.Union([Schema.Finite, Schema.String]).annotate({
      description: "The latest start: a time (ISO 8601), or a duration from now",
    }),
  ),
  timeLimit: Schema.optionalKey(TimeLimitField),
  retry: Schema.optionalKey(RetryField),
  repeat: Schema.optionalKey(
    RepeatField.annotate({ description: "Run it again after each success, as the next run of the same job" }),
  ),
  callbacks: Schema.optionalKey(
    FollowUps.annotate({
      description: "Submitted when the job succeeds; the result is prepended to the arguments of each callback",
    }),
  ),
  errbacks: Schema.optionalKey(
    FollowUps.annotate({
      description: "Submitted when it fails; each gets request, error and traceback. A chain's links inherit them",
    }),
  ),
  chain: Schema.optionalKey(
    FollowUps.annotate({
      description: "Run one after the other when it succeeds; each gets the result of the one before",
    }),
  ),
  after: Schema.optionalKey(AfterField),
  chord: Schema.optionalKey(ChordField),
  parentId: Schema.optionalKey(
    Name.annotate({
      description:
        "The job that it follows, which its handler can read; a token needs `read` and `payload` to name one",
    }),
  ),
  rootId: Schema.optionalKey(Name),
  group: Schema.optionalKey(Name),
  ttl: Schema.optionalKey(
    Duration.annotate({
      description: "How long it may wait once it is due before it expires; no longer applies once it has started",
    }),
  ),
  resultTtl: Schema.optionalKey(
    Duration.annotate({ description: "How long a success is kept; 0: it is removed at once; negative: indefinitely" }),
  ),
  failureTtl: Schema.optionalKey(
    Duration.annotate({ description: "How long a failure is kept; negative: indefinitely" }),
  ),
  shadow: Schema.optionalKey(Name.annotate({ description: "Name to show instead of task and method" })),
  description: Schema.optionalKey(Text(1_000)),
  details: Schema.optionalKey(
    Json.annotate({ description: "A description of the job, for people and programs; it never changes" }),
  ),
  book: Schema.optionalKey(
    Schema.Struct({ name: Name, uuid: Name }).annotate({
      description: "The book of tasks to which it belongs; passed on unchanged",
    }),
  ),
  meta: Schema.optionalKey(Json.annotate({ description: "Your own data, which you and the handler can change" })),
  headers: Schema.optionalKey(Json.annotate({ description: "Custom headers, which the handler can read" })),
})

export const SubmissionSchema = Schema.Struct({
  task: Name.annotate({ description: "Actor, or actor and method: `text.count`" }),
  ...SubmissionFieldsSchema.fields,
}).annotate({ identifier: "Task" })

export type Submission = Given<ParsedSubmission>
/** A submission after its checks, without fields that are `undefined`. */
export type ParsedSubmission = typeof SubmissionSchema.Type
export type SubmissionFields = Given<typeof SubmissionFieldsSchema.Type>

/** Fields that other task queues have and Callboard does not: refused by name with `unsupported`, never ignored. */
const UNSUPPORTED_FIELDS: ReadonlySet<string> = new Set(["key", "peek"])

const decode = decoderOf(SubmissionSchema, "a task", "task")

/**
 * A submission that has a task and an input only, as most have: accepted here without the schema, which would give the
 * same result in ten times the time. `undefined` for any other value.
 */
const plainSubmission = (value: object): ParsedSubmission | undefined => {
  for (const field in value) if (field !== "task" && field !== "input") return undefined
  if (!("task" in value) || !isName(value.task)) return undefined
  return "input" in value ? { task: value.task, input: value.input } : { task: value.task }
}

/** Checks the shape of a submission. Fails with `unsupported`, `unknown-field` or `invalid-input`, naming the field. */
export const parseSubmission = (given: unknown): Result.Result<ParsedSubmission, CallboardError> => {
  if (!isTask(given)) return Result.fail(noTask())
  const plain = plainSubmission(given)
  if (plain !== undefined) return Result.succeed(plain)
  const carried = resultOf(() => withPlainFields(given))
  if (Result.isFailure(carried)) return Result.fail(carried.failure)
  const decoded = decode(carried.success)
  if (Result.isSuccess(decoded)) return decoded
  for (const [field, value] of Object.entries(carried.success)) {
    if (UNSUPPORTED_FIELDS.has(field) && value !== undefined) {
      return Result.fail(new CallboardError("unsupported", `${field} is not supported by this version`, { field }))
    }
  }
  return decoded
}
