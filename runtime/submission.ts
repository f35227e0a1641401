/**
 * What a caller submits, as one schema: it checks HTTP bodies and calls from code, and describes itself in the OpenAPI
 * document. {@link plan} turns a checked submission into the posting that a transport carries.
 */
import { Result, Schema, SchemaIssue } from "effect"
import { CallboardError } from "./errors.ts"
import { type Embed, encodeBody, encodeValue, NO_EMBED } from "./protocol/body.ts"
import {
  type AfterHeader,
  isReservedHeader,
  LANG,
  MOST_PARENTS,
  newTask,
  type OwnHeaders,
  postingOfTask,
  renderCompact,
  type Task,
} from "./protocol/headers.ts"
import { bodyOfInput } from "./protocol/input.ts"
import { DEFAULT_PRIORITY, type Message, type Posting } from "./protocol/message.ts"
import { checkQueueName, isId, MAX_ID_BYTES } from "./protocol/name.ts"
import type { Signature } from "./protocol/signature.ts"
import { parseDuration, parseMoment, parseTime } from "./protocol/time.ts"
import { tracestateBeside } from "./protocol/trace-context.ts"
import { type PolicyProblem, RepeatField, RetryField, repeatHeader, retryHeader } from "./retry-policy.ts"

/** Our own ids. Ids from a foreign wire may be any text up to 255 bytes. */
export const JobId = Schema.String.check(
  Schema.isPattern(/^[A-Za-z0-9_-]{1,128}$/u, { description: "1 to 128 letters, digits, `_` or `-`" }),
)

const Duration = Schema.Union([Schema.Finite, Schema.String]).annotate({
  description: "Seconds as a number (fractions are kept), or text: 10s, 5 minutes, 1h",
})

const Name = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(255))
const Text = (max: number) => Schema.String.check(Schema.isMaxLength(max))
const Json = Schema.Record(Schema.String, Schema.Unknown)

const TimeLimitField = Schema.Union([
  Schema.Finite,
  Schema.String,
  Schema.Struct({ soft: Schema.optionalKey(Duration), hard: Schema.optionalKey(Duration) }),
]).annotate({ description: "Longest an attempt may take; a number or text is the hard limit" })

const JobIds = Schema.Array(Schema.String).check(Schema.isMinLength(1), Schema.isMaxLength(MOST_PARENTS))

/** Jobs to wait for. */
const AfterField = Schema.Union([
  Schema.String,
  JobIds,
  Schema.Struct({
    ids: Schema.Union([Schema.String, JobIds]),
    allowFailure: Schema.optionalKey(
      Schema.Boolean.annotate({ description: "Their failure will do as well as their success" }),
    ),
  }),
]).annotate({
  description:
    "Ids of jobs that must have succeeded before this one starts; until then it is `deferred`. A cancelled one is waited for until it has run again and succeeded",
})

/** A task that follows another: a callback, an errback or a link of a chain. */
const FollowUpSchema = Schema.Struct({
  task: Name.annotate({ description: "Actor and method: `text.count`" }),
  meth: Schema.optionalKey(Name),
  input: Schema.optionalKey(Schema.Unknown),
  args: Schema.optionalKey(Schema.Array(Schema.Unknown)),
  kwargs: Schema.optionalKey(Json),
  id: Schema.optionalKey(JobId),
  queue: Schema.optionalKey(Name),
  priority: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 9 }))),
  delay: Schema.optionalKey(Duration),
  immutable: Schema.optionalKey(
    Schema.Boolean.annotate({ description: "Does not get the result (or the error) before its own arguments" }),
  ),
}).annotate({ identifier: "FollowUp" })
type FollowUp = typeof FollowUpSchema.Type

/** More follow-ups than this are refused, in one list and with what a chain's links inherit: a chain travels with each of its links. */
const MAX_FOLLOW_UPS = 10_000
const FollowUps = Schema.Array(FollowUpSchema).check(Schema.isMaxLength(MAX_FOLLOW_UPS))

/** Everything about a task but its name. */
export const SubmissionFieldsSchema = Schema.Struct({
  meth: Schema.optionalKey(Name.annotate({ description: "Method of the actor; the default is `run`" })),
  input: Schema.optionalKey(Schema.Unknown.annotate({ description: "What the method gets. An object, or one value" })),
  args: Schema.optionalKey(Schema.Array(Schema.Unknown).annotate({ description: "Positional arguments" })),
  kwargs: Schema.optionalKey(Json.annotate({ description: "Keyword arguments; instead of `input`" })),
  id: Schema.optionalKey(JobId.annotate({ description: "Job id; submitting again with the same id is safe" })),
  queue: Schema.optionalKey(Name),
  priority: Schema.optionalKey(
    Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 9 })).annotate({ description: "0–9, 9 first" }),
  ),
  front: Schema.optionalKey(Schema.Boolean.annotate({ description: "Before every priority" })),
  delay: Schema.optionalKey(Duration.annotate({ description: "Not before this much later" })),
  eta: Schema.optionalKey(Schema.String.annotate({ description: "Not before this time: ISO 8601, UTC if no zone" })),
  expires: Schema.optionalKey(
    Schema.Union([Schema.Finite, Schema.String]).annotate({
      description: "Must start before this: a time (ISO 8601), or a duration from now",
    }),
  ),
  timeLimit: Schema.optionalKey(TimeLimitField),
  retry: Schema.optionalKey(RetryField),
  repeat: Schema.optionalKey(
    RepeatField.annotate({ description: "Runs it again after each success, as the next run of the same job" }),
  ),
  callbacks: Schema.optionalKey(
    FollowUps.annotate({ description: "Submitted when it succeeds; each gets the result before its own arguments" }),
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
  parentId: Schema.optionalKey(Name),
  rootId: Schema.optionalKey(Name),
  group: Schema.optionalKey(Name),
  resultTtl: Schema.optionalKey(Duration.annotate({ description: "How long a success is kept; negative: for ever" })),
  failureTtl: Schema.optionalKey(Duration.annotate({ description: "How long a failure is kept; negative: for ever" })),
  shadow: Schema.optionalKey(Name.annotate({ description: "Name to show instead of task and method" })),
  description: Schema.optionalKey(Text(1_000)),
  meta: Schema.optionalKey(Json.annotate({ description: "Your own data; shown with the job" })),
  headers: Schema.optionalKey(Json.annotate({ description: "Custom headers; the handler sees them" })),
})

export const SubmissionSchema = Schema.Struct({
  task: Name.annotate({ description: "Actor, or actor and method: `text.count`" }),
  ...SubmissionFieldsSchema.fields,
}).annotate({ identifier: "Task" })

export type Submission = typeof SubmissionSchema.Type
export type SubmissionFields = typeof SubmissionFieldsSchema.Type

/** Fields of the task body that are understood but whose feature does not exist: refused by name, never ignored. */
export const UNSUPPORTED_FIELDS: ReadonlySet<string> = new Set(["chord", "key", "unique", "ttl"])

const decode = Schema.decodeUnknownResult(SubmissionSchema, { onExcessProperty: "error", errors: "all" })
const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** Checks the shape of a submission. Fails with `unsupported`, `unknown-field` or `invalid-input`, naming the field. */
export const parseSubmission = (value: unknown): Result.Result<Submission, CallboardError> => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return Result.fail(new CallboardError("invalid-input", "a task is an object with at least a `task` field"))
  }
  const decoded = decode(value)
  if (Result.isSuccess(decoded)) return Result.succeed(decoded.success)
  for (const field of Object.keys(value)) {
    if (UNSUPPORTED_FIELDS.has(field)) {
      return Result.fail(new CallboardError("unsupported", `${field} is not supported by this version`, { field }))
    }
  }
  const issues = format(decoded.failure.issue).issues
  const unknown = issues.find((issue) => issue.message === "Expected no excess property")
  const issue = unknown ?? issues[0]
  const field = (issue?.path ?? []).map((key) => String(typeof key === "object" ? key.key : key)).join(".")
  return Result.fail(
    unknown === undefined
      ? new CallboardError("invalid-input", `${field}: ${issue?.message ?? "is not valid"}`, { field })
      : new CallboardError("unknown-field", `${field} is not a field of a task`, { field }),
  )
}

/** What a submission needs from outside: the clock, an id, and what is known about the actor. */
export interface PlanContext {
  readonly now: number
  readonly id: string
  /** Who submits: `gen<pid>@<host>`, as Celery writes it. */
  readonly origin: string
  /** Queue and priority of tasks that name none. */
  readonly defaults: { readonly queue: string; readonly priority?: number }
  /** W3C trace context of the caller, carried along. */
  readonly traceparent?: string
  /** What belongs to it; dropped where it is malformed, and cut to 512 characters. */
  readonly tracestate?: string
  /** The job that submits, if one does. */
  readonly parent?: { readonly id: string; readonly rootId: string }
}

/** Carries a refusal out of nested checks to {@link plan}, which returns it as a value. */
class Refusal {
  readonly error: CallboardError
  constructor(error: CallboardError) {
    this.error = error
  }
}

const refuse = (field: string, message: string): never => {
  throw new Refusal(new CallboardError("invalid-input", `${field}: ${message}`, { field }))
}

const milliseconds = (field: string, value: number | string): number => {
  const parsed = parseDuration(value)
  return Result.isSuccess(parsed) ? parsed.success : refuse(field, parsed.failure.message)
}

/** A time to live: negative means for ever, which a duration cannot say. */
const timeToLive = (field: string, value: number | string): number =>
  typeof value === "number" && value < 0 ? -1 : milliseconds(field, value)

const limits = (timeLimit: NonNullable<Submission["timeLimit"]>): Task["timelimit"] => {
  const given = typeof timeLimit === "object" ? timeLimit : { hard: timeLimit }
  const seconds = (field: string, value: number | string | undefined): number | null => {
    if (value === undefined) return null
    const ms = milliseconds(field, value)
    return ms > 0 ? ms / 1000 : refuse(field, "must be more than 0")
  }
  const hard = seconds("timeLimit.hard", given.hard)
  const soft = seconds("timeLimit.soft", given.soft)
  if (hard !== null && soft !== null && soft >= hard) refuse("timeLimit.soft", "must be shorter than timeLimit.hard")
  return { hard, soft }
}

/** What a policy comes to; a problem with it is refused by its field. */
const policy = <A>(made: Result.Result<A, PolicyProblem>): A =>
  Result.isSuccess(made) ? made.success : refuse(made.failure.field, made.failure.message)

/** Headers travel as plain JSON: refused here, by name, instead of by the transport for the whole message. */
const checkJson = (field: string, value: unknown): void => {
  const encoded = encodeValue(value)
  if (Result.isFailure(encoded)) refuse(field, encoded.failure.message)
  try {
    JSON.stringify(value)
  } catch (cause) {
    refuse(field, cause instanceof Error ? cause.message : String(cause))
  }
}

/** The jobs that a task waits for, each once. */
const afterOf = (after: NonNullable<Submission["after"]>, own: string): AfterHeader => {
  const { ids: given, allowFailure = false } =
    typeof after === "object" && "ids" in after ? after : { ids: after, allowFailure: false }
  const ids = [...new Set(typeof given === "string" ? [given] : given)]
  for (const id of ids) {
    if (id === own) refuse("after", "a job cannot wait for itself")
    if (!isId(id)) refuse("after", `a job id is well-formed text of 1 to ${MAX_ID_BYTES} bytes`)
  }
  return { ids, ...(allowFailure ? { allowFailure } : {}) }
}

/** One id is one job: of two follow-ups with the same, the second would pass for a repetition and never be submitted. */
const checkFollowUpIds = (submission: Submission, own: string): void => {
  const { callbacks = [], errbacks = [], chain = [] } = submission
  const known = new Set([own])
  for (const [list, followUps] of Object.entries({ callbacks, errbacks, chain })) {
    for (const [at, { id }] of followUps.entries()) {
      if (id === undefined) continue
      if (known.has(id)) refuse(`${list}[${at}].id`, "is the id of another job of this submission")
      known.add(id)
    }
  }
}

/** Turns a checked submission into a posting. Fails with `invalid-input`, naming the field. */
export const plan = (submission: Submission, context: PlanContext): Result.Result<Posting, CallboardError> => {
  try {
    return Result.succeed(planOrThrow(submission, context))
  } catch (thrown) {
    if (thrown instanceof Refusal) return Result.fail(thrown.error)
    throw thrown
  }
}

const planOrThrow = (submission: Submission, context: PlanContext): Posting => {
  const { now, id, parent } = context
  const queue = submission.queue ?? context.defaults.queue
  const checkedQueue = checkQueueName(queue)
  if (Result.isFailure(checkedQueue)) refuse("queue", checkedQueue.failure.message)

  if (submission.delay !== undefined && submission.eta !== undefined) refuse("delay", "give `delay` or `eta`, not both")
  const due =
    submission.delay !== undefined ? Math.ceil(now + milliseconds("delay", submission.delay)) : etaOf(submission.eta)
  const expires = submission.expires === undefined ? undefined : expiryOf(submission.expires, now)

  for (const name of Object.keys(submission.headers ?? {})) {
    if (isReservedHeader(name)) refuse(`headers.${name}`, "is a standard header; use the field of the task instead")
  }
  if (submission.headers !== undefined) checkJson("headers", submission.headers)
  if (submission.meta !== undefined) checkJson("meta", submission.meta)
  for (const field of ["parentId", "rootId", "group"] as const) {
    // Accepted, the task could not be read any more: nobody would find it, and its worker would call it dead.
    const given = submission[field]
    if (given !== undefined && !isId(given)) refuse(field, `must be well-formed text of 1 to ${MAX_ID_BYTES} bytes`)
  }
  checkFollowUpIds(submission, id)
  const { chain = [], errbacks = [] } = submission
  if (chain.length * errbacks.length > MAX_FOLLOW_UPS) {
    refuse(
      "errbacks",
      `are on each link of the chain: ${chain.length} × ${errbacks.length} are more than ${MAX_FOLLOW_UPS}`,
    )
  }

  const own: OwnHeaders = {
    submittedAt: now,
    ...(submission.front ? { front: true } : {}),
    ...(submission.resultTtl === undefined ? {} : { resultTtlMs: timeToLive("resultTtl", submission.resultTtl) }),
    ...(submission.failureTtl === undefined ? {} : { failureTtlMs: timeToLive("failureTtl", submission.failureTtl) }),
    ...(submission.retry === undefined ? {} : { retry: policy(retryHeader(submission.retry)) }),
    ...(submission.repeat === undefined ? {} : { repeat: policy(repeatHeader(submission.repeat)) }),
    ...(submission.after === undefined ? {} : { after: afterOf(submission.after, id) }),
    ...(submission.meta === undefined ? {} : { meta: submission.meta }),
    ...(submission.description === undefined ? {} : { description: submission.description }),
  }
  const parentId = submission.parentId ?? parent?.id
  const given = bodyOfInput(submission, embedOf(submission))
  if (Result.isFailure(given)) return refuse(given.failure.field, given.failure.message)
  const body = encodeBody(given.success)
  if (Result.isFailure(body)) return refuse("input", body.failure.message)
  const task: Task = newTask({
    lang: LANG,
    task: submission.task,
    meth: submission.meth ?? null,
    id,
    rootId: submission.rootId ?? parent?.rootId ?? id,
    parentId: parentId ?? null,
    group: submission.group ?? null,
    shadow: submission.shadow ?? null,
    eta: due ?? null,
    expires: expires ?? null,
    timelimit: submission.timeLimit === undefined ? { hard: null, soft: null } : limits(submission.timeLimit),
    origin: context.origin,
    traceparent: context.traceparent ?? null,
    tracestate: tracestateBeside(context.traceparent, context.tracestate),
    own,
    custom: submission.headers ?? {},
  })
  const message: Message = {
    headers: renderCompact(task),
    properties: {
      content_type: body.success.contentType,
      content_encoding: body.success.contentEncoding,
      correlation_id: id,
      delivery_mode: 2,
      priority: submission.priority ?? context.defaults.priority ?? DEFAULT_PRIORITY,
    },
    body: body.success.bytes,
  }
  const posting = postingOfTask(task, message, queue)
  return Result.isSuccess(posting) ? posting.success : refuse(posting.failure.field, posting.failure.message)
}

/** Follow-ups as Celery's signatures: what travels in the body. */
const embedOf = (submission: Submission): Embed => {
  const { callbacks, errbacks, chain } = submission
  if (callbacks === undefined && errbacks === undefined && chain === undefined) return NO_EMBED
  const onError = errbacks?.map((errback, at) => signatureOf(errback, `errbacks[${at}]`)) ?? null
  // As a Celery client does: a chain's errbacks are on each of its links, since any of them may fail.
  const inherited = onError === null ? {} : { link_error: onError }
  const links = chain?.map((link, at) => signatureOf(link, `chain[${at}]`, inherited)) ?? null
  return {
    callbacks: callbacks?.map((callback, at) => signatureOf(callback, `callbacks[${at}]`)) ?? null,
    errbacks: onError,
    // On the wire the next one is last.
    chain: links?.reverse() ?? null,
    chord: null,
  }
}

const signatureOf = (followUp: FollowUp, field: string, options: Signature["options"] = {}): Signature => {
  const given = bodyOfInput(followUp)
  if (Result.isFailure(given)) return refuse(`${field}.${given.failure.field}`, given.failure.message)
  if (followUp.queue !== undefined) {
    const checked = checkQueueName(followUp.queue)
    if (Result.isFailure(checked)) refuse(`${field}.queue`, checked.failure.message)
  }
  return {
    task: followUp.task,
    ...(followUp.meth === undefined ? {} : { meth: followUp.meth }),
    args: given.success.args,
    kwargs: given.success.kwargs,
    options: {
      ...options,
      ...(followUp.id === undefined ? {} : { task_id: followUp.id }),
      ...(followUp.queue === undefined ? {} : { queue: followUp.queue }),
      ...(followUp.priority === undefined ? {} : { priority: followUp.priority }),
      ...(followUp.delay === undefined ? {} : { countdown: milliseconds(`${field}.delay`, followUp.delay) / 1000 }),
    },
    subtask_type: null,
    immutable: followUp.immutable ?? false,
  }
}

const etaOf = (eta: string | undefined): number | undefined => {
  if (eta === undefined) return undefined
  const parsed = parseTime(eta)
  return Result.isSuccess(parsed) ? Math.ceil(parsed.success) : refuse("eta", parsed.failure.message)
}

const expiryOf = (expires: number | string, now: number): number => {
  const parsed = parseMoment(expires, now)
  const at = Result.isSuccess(parsed) ? parsed.success : refuse("expires", parsed.failure.message)
  return at > now ? Math.ceil(at) : refuse("expires", "has already passed")
}
