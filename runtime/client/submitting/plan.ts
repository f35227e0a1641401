/** Turns a checked submission into the posting that a transport carries. */
import * as Result from "effect/Result"
import { CallboardError } from "../../errors.ts"
import type { Placement } from "../../jobs/submission/chord.ts"
import { checkFollowUps, embedOf } from "../../jobs/submission/follow-ups.ts"
import type { ParsedSubmission } from "../../jobs/submission/submission.ts"
import { milliseconds, timeLimitOf, timeToLive } from "../../options/duration.ts"
import { findInvalid } from "../../options/json-schema.ts"
import { tenantOf } from "../../options/limit.ts"
import { failureOf } from "../../options/refusal.ts"
import { refuseInput as refuse } from "../../options/refuse.ts"
import { repeatHeader, retryHeader } from "../../options/retry-policy.ts"
import { type Body, encodeBody, encodeValue } from "../../protocol/body.ts"
import { jsonForm, strictJson } from "../../protocol/codec/json.ts"
import {
  type AfterHeader,
  isReservedHeader,
  LANG,
  type OwnHeaders,
  postingOfTask,
  renderCompact,
  type Task,
} from "../../protocol/headers.ts"
import { bodyOfInput, selectInput } from "../../protocol/input.ts"
import { DEFAULT_PRIORITY, type JobPosting, type Message } from "../../protocol/message.ts"
import { checkQueueName, isId, MAX_ID_BYTES } from "../../protocol/name.ts"
import { isExpired, parseMoment, parseTime } from "../../protocol/time.ts"
import { tracestateBeside } from "../../protocol/trace-context.ts"

/** What a submission needs from outside: the clock, an id, and what is known about the actor. */
export interface PlanContext {
  readonly now: number
  readonly id: string
  /** The submitting process: `gen<pid>@<host>`, as Celery writes it. */
  readonly origin: string
  /** Queue and priority of a task that names none. */
  readonly defaults: { readonly queue: string; readonly priority?: number }
  /** JSON Schema that the input must meet, where it is JSON. */
  readonly inputSchema?: unknown
  /** The field of the input that names the tenant of a limit. */
  readonly limitKey?: string
  /** Names for positional arguments. */
  readonly params?: ReadonlyArray<string>
  /** W3C trace context of the caller, carried along. */
  readonly traceparent?: string
  /** Goes with `traceparent`; dropped where it is malformed, and cut to 512 characters. */
  readonly tracestate?: string
  /** Name of the client, where it has one. */
  readonly sender?: string
  /** The arguments that the method hides. */
  readonly redact?: boolean | ReadonlyArray<string>
  /** The job that submits, if one does. */
  readonly parent?: { readonly id: string; readonly rootId: string }
  /** Where the task belongs, if it is part of a chord. */
  readonly placement?: Placement
}

/** Turns a checked submission into a posting. Fails with `invalid-input`, naming the field. */
export const plan = (submission: ParsedSubmission, context: PlanContext): Result.Result<JobPosting, CallboardError> => {
  try {
    return Result.succeed(planOrThrow(submission, context))
  } catch (thrown) {
    return failureOf(thrown)
  }
}

const planOrThrow = (submission: ParsedSubmission, context: PlanContext): JobPosting => {
  const { id, placement } = context
  const queue = submission.queue ?? context.defaults.queue
  const checkedQueue = checkQueueName(queue)
  if (Result.isFailure(checkedQueue)) refuse("queue", checkedQueue.failure.message)
  const times = timesOf(submission, context)
  if (submission.unique !== undefined && submission.id === undefined)
    refuse("unique", "needs an `id` that no other job has")
  checkCarried(submission)
  checkFollowUps(submission, id)
  const given = bodyOfInput(submission, embedOf(submission, placement?.fanOut))
  if (Result.isFailure(given)) return refuse(given.failure.field, given.failure.message)
  const own = ownHeadersOf(submission, context, times.ttlMs, tenantIn(given.success, context))
  const body = encodeBody(given.success)
  if (Result.isFailure(body)) throw unsent(submission) ?? new CallboardError("invalid-input", body.failure.message)
  // The input of a chord's body is complete only with the results of its members: its worker checks it.
  const isComplete = placement?.chord === undefined || placement.chord.immutable === true
  if (context.inputSchema !== undefined && isComplete) checkInput(given.success, context)
  const task = taskOf(submission, context, times, own)
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

const taskOf = (submission: ParsedSubmission, context: PlanContext, times: Times, own: OwnHeaders): Task => {
  const { id, parent, placement } = context
  return {
    lang: LANG,
    task: submission.task,
    meth: submission.meth ?? null,
    id,
    rootId: placement?.rootId ?? submission.rootId ?? parent?.rootId ?? id,
    parentId: submission.parentId ?? parent?.id ?? null,
    group: placement?.group ?? submission.group ?? null,
    groupIndex: placement?.groupIndex ?? null,
    shadow: submission.shadow ?? null,
    eta: times.due ?? null,
    expires: times.expires ?? null,
    retries: 0,
    timelimit: submission.timeLimit === undefined ? NO_LIMITS : limits(submission.timeLimit),
    argsrepr: null,
    kwargsrepr: null,
    origin: context.origin,
    ignoreResult: false,
    stampedHeaders: null,
    stamps: NONE,
    replacedTaskNesting: 0,
    traceparent: context.traceparent ?? null,
    tracestate: tracestateBeside(context.traceparent, context.tracestate),
    compression: null,
    own,
    custom: submission.headers ?? NONE,
  }
}

/** When a task may start, and until when, in milliseconds since the epoch; `ttlMs`: how long it may wait. */
interface Times {
  readonly due: number | undefined
  readonly expires: number | undefined
  readonly ttlMs: number | undefined
}

const ANY_TIME: Times = Object.freeze({ due: undefined, expires: undefined, ttlMs: undefined })

const timesOf = (submission: ParsedSubmission, { now, placement }: PlanContext): Times => {
  const { delay, eta, ttl, expires } = submission
  if (delay === undefined && eta === undefined && ttl === undefined && expires === undefined) return ANY_TIME
  if (delay !== undefined && eta !== undefined) refuse("delay", "use either `delay` or `eta`, not both")
  const due = delay !== undefined ? Math.ceil(now + milliseconds("delay", delay)) : etaOf(eta)
  const ttlMs = ttl === undefined ? undefined : ttlOf(ttl, expires)
  // A task that waits for other jobs is in no queue yet: its time begins when it is released.
  const isDeferred = submission.after !== undefined || placement?.chord !== undefined
  const waitsUntil = ttlMs === undefined || isDeferred ? undefined : Math.max(now, due ?? now) + ttlMs
  const until = expires === undefined ? waitsUntil : expiryOf(expires, now)
  if (due !== undefined && isExpired(until, due)) refuse("expires", "passes before the task can start")
  return { due, expires: until, ttlMs }
}

const NONE: Readonly<Record<string, never>> = Object.freeze({})
const NO_LIMITS: Task["timelimit"] = Object.freeze({ hard: null, soft: null })

/** The fields that the body of a task is made of. */
const IN_BODY = ["input", "args", "kwargs", "callbacks", "errbacks", "chain"] as const

/** Which value of a submission its body cannot hold, by its place. */
const unsent = (submission: ParsedSubmission): CallboardError | undefined => {
  for (const field of IN_BODY) {
    const form = jsonForm(submission[field], field)
    if (Result.isFailure(form))
      return new CallboardError("invalid-input", form.failure.message, { field: form.failure.place })
  }
  return undefined
}

/**
 * Refuses an input that the worker would refuse. An input that is no JSON is left to the worker: JSON Schema does not
 * cover it.
 */
const checkInput = (body: Body, { inputSchema, params }: PlanContext): void => {
  const input = selectInput(body, params)
  if (Result.isFailure(input)) return
  const json = strictJson(input.success)
  const invalid = json === undefined ? undefined : findInvalid(inputSchema, json)
  if (invalid === undefined) return
  const field = invalid.field === "" ? "input" : `input.${invalid.field}`
  throw new CallboardError("invalid-input", `input${invalid.field === "" ? ": " : "."}${invalid.message}`, { field })
}

/**
 * The tenant whose limit applies to the job. In a header, it lets a worker defer the job without decoding the input.
 */
const tenantIn = (body: Body, { limitKey, params }: PlanContext): string | undefined => {
  if (limitKey === undefined) return undefined
  const input = selectInput(body, params)
  return Result.isSuccess(input) ? Result.getOrUndefined(tenantOf(limitKey, input.success)) : undefined
}

const etaOf = (eta: string | undefined): number | undefined => {
  if (eta === undefined) return undefined
  const parsed = parseTime(eta)
  return Result.isSuccess(parsed) ? Math.ceil(parsed.success) : refuse("eta", parsed.failure.message)
}

const expiryOf = (expires: number | string, now: number): number => {
  const parsed = parseMoment(expires, now)
  const at = Result.isSuccess(parsed) ? Math.ceil(parsed.success) : refuse("expires", parsed.failure.message)
  return isExpired(at, now) ? refuse("expires", "has already passed") : at
}

const ttlOf = (ttl: NonNullable<ParsedSubmission["ttl"]>, expires: ParsedSubmission["expires"]): number => {
  if (expires !== undefined) refuse("ttl", "use either `ttl` or `expires`, not both")
  const ms = milliseconds("ttl", ttl)
  return ms > 0 ? ms : refuse("ttl", "must be more than 0")
}

/** Checks what the task carries unchanged: custom headers, meta data and ids of other jobs. */
const checkCarried = ({ headers, meta, details, parentId, rootId, group }: ParsedSubmission): void => {
  if (headers !== undefined) checkHeaders(headers)
  if (meta !== undefined) checkJson("meta", meta)
  if (details !== undefined) checkJson("details", details)
  if (parentId !== undefined) checkId("parentId", parentId)
  if (rootId !== undefined) checkId("rootId", rootId)
  if (group !== undefined) checkId("group", group)
}

const checkHeaders = (headers: NonNullable<ParsedSubmission["headers"]>): void => {
  for (const name of Object.keys(headers)) {
    if (isReservedHeader(name)) refuse(`headers.${name}`, "is a standard header; use the field of the task instead")
  }
  checkJson("headers", headers)
}

/** A task with a wrong id could not be parsed by its worker, which would make it a dead letter. */
const checkId = (field: string, id: string): void => {
  if (!isId(id)) refuse(field, `must be well-formed text of 1 to ${MAX_ID_BYTES} bytes`)
}

/** Headers travel in JSON: refused here, by name, instead of by the transport for the whole message. */
const checkJson = (field: string, value: unknown): void => {
  const encoded = encodeValue(value)
  if (Result.isFailure(encoded)) refuse(field, encoded.failure.message)
}

/** Filled field by field, because copying an object takes longer, and most fields are absent. */
const ownHeadersOf = (
  submission: ParsedSubmission,
  { id, now, sender, redact, placement }: PlanContext,
  ttlMs: number | undefined,
  tenant: string | undefined,
): OwnHeaders => {
  const { resultTtl, failureTtl, retry, repeat, after, meta, description, details, book } = submission
  const own: { -readonly [Field in keyof OwnHeaders]: OwnHeaders[Field] } = { submittedAt: now }
  if (submission.front) own.front = true
  if (resultTtl !== undefined) own.resultTtlMs = timeToLive("resultTtl", resultTtl)
  if (failureTtl !== undefined) own.failureTtlMs = timeToLive("failureTtl", failureTtl)
  if (retry !== undefined) own.retry = retryHeader(retry)
  if (repeat !== undefined) own.repeat = repeatHeader(repeat)
  if (after !== undefined) own.after = afterOf(after, id)
  if (meta !== undefined) own.meta = meta
  if (description !== undefined) own.description = description
  if (details !== undefined) own.details = details
  if (book !== undefined) own.book = book
  if (ttlMs !== undefined) own.ttlMs = ttlMs
  if (sender !== undefined) own.sender = sender
  if (redact !== undefined && redact !== false) own.redact = redact
  if (tenant !== undefined) own.tenant = tenant
  if (placement?.member !== undefined) own.member = placement.member
  if (placement?.chord !== undefined) own.chord = placement.chord
  return own
}

/** The jobs that a task waits for, each once. */
const afterOf = (after: NonNullable<ParsedSubmission["after"]>, own: string): AfterHeader => {
  const { ids: given, allowFailure = false } =
    typeof after === "object" && "ids" in after ? after : { ids: after, allowFailure: false }
  const ids = [...new Set(typeof given === "string" ? [given] : given)]
  for (const id of ids) {
    if (id === own) refuse("after", "a job cannot wait for itself")
    if (!isId(id)) refuse("after", `a job id is well-formed text of 1 to ${MAX_ID_BYTES} bytes`)
  }
  return { ids, ...(allowFailure ? { allowFailure } : {}) }
}

/** Time limits as they travel: in seconds. */
const limits = (given: NonNullable<ParsedSubmission["timeLimit"]>): Task["timelimit"] => {
  const { hardMs, softMs } = timeLimitOf(given)
  return { hard: hardMs === undefined ? null : hardMs / 1000, soft: softMs === undefined ? null : softMs / 1000 }
}
