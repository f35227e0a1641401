/**
 * A client that speaks HTTP to a service, for applications that cannot reach the broker: by `fetch`, with the same
 * handles and errors.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { CallboardError, WaitTimeout } from "../errors.ts"
import { generateId } from "../id.ts"
import {
  type HandleActions,
  handleOf,
  type JobHandle,
  resultsWaitMsOf,
  timeoutMsOf,
  type WaitOptions,
} from "../jobs/handle.ts"
import type { JobLink, LinkOptions } from "../jobs/link.ts"
import type { Receipt } from "../jobs/receipt.ts"
import { errorOf } from "../jobs/responses.ts"
import {
  checkFields,
  checkTasks,
  type Submission,
  type SubmissionFields,
  withPlainFields,
} from "../jobs/submission/submission.ts"
import { type Outcome, outcomeInCode, outcomeOf, valueOf } from "../jobs/tracking/outcome.ts"
import { optionsChecker } from "../options/check.ts"
import { type DurationInput, duration, milliseconds } from "../options/duration.ts"
import { refuseInput, refuseUnknown } from "../options/refuse.ts"
import { compact } from "../protocol/compact.ts"
import { isMap } from "../protocol/guards.ts"
import { isState } from "../protocol/state.ts"
import type { Answer } from "../routes/routes.ts"
import { checkScheduleName } from "../schedules/fields.ts"
import { SCHEDULE_QUERY, type Schedules } from "../schedules/schedules.ts"
import { sleep } from "../transport/timers.ts"
import { type HttpBoard, httpBoard } from "./http-board.ts"
import { type Ask, askOver, POLL_MS, type Refusal, type Request, requestsTo, unreadable } from "./http-request.ts"

export interface HttpClientSettings {
  /** Sent as `Authorization: Bearer <token>`. Defaults to none; a service that has tokens answers only with one. */
  readonly token?: string | undefined
  /** Longest wait for an answer of the service, beside the wait for a job's end: 1 ms to 1 day. Defaults to 10 seconds. */
  readonly timeout?: DurationInput | undefined
}

const checkSettings = optionsChecker(
  {
    token: Schema.optionalKey(Schema.String),
    timeout: Schema.optionalKey(duration({ min: 1, max: 86_400_000 })),
  } satisfies Readonly<Record<keyof HttpClientSettings, Schema.Top>>,
  "connectHttp()",
)

/**
 * A job by its id, over HTTP: the methods of {@link JobHandle} except `events`. Every method fails with `CallboardError`:
 * `unauthorized`, `forbidden`, `transport-unavailable`, `gone` for a job that is not kept any more, and as {@link JobHandle}
 * says.
 */
export interface HttpJob<R = unknown> extends Omit<JobHandle<R>, "events"> {
  /**
   * Makes a token for this job alone, such as for a web page: with it, `connectHttp` reaches this job and nothing else until
   * the link ends. Fails with `unsupported` if the service has no `http.linkSecret`, and with `forbidden` for a scope that the
   * token of this client lacks.
   *
   * @example
   * ```ts
   * const { token, expires } = await client.job(id).link({ scopes: ["read"], ttl: "1 hour" })
   * ```
   */
  link(options?: LinkOptions): Promise<JobLink>
}

/** The handle of a job that was just submitted over HTTP. */
export interface HttpSubmittedJob<R = unknown> extends HttpJob<R> {
  readonly receipt: Receipt
}

type ScheduleMethods = "create" | "find" | "list" | "change" | "pause" | "resume" | "run" | "delete"

/** The schedules of a service. Every method fails as that of {@link Schedules} does, and as {@link HttpJob} does. */
export type HttpSchedules = {
  readonly [Method in ScheduleMethods]: (
    ...given: Method extends "create" | "change"
      ? Parameters<Schedules[Method]> extends [infer Name, infer Fields, ...unknown[]]
        ? [name: Name, fields: Fields]
        : never
      : Parameters<Schedules[Method]>
  ) => ReturnType<Schedules[Method]>
}

/** Submits tasks to a service over HTTP and follows its jobs. It holds no connection, so there is nothing to close. */
export interface HttpClient {
  /**
   * Submits one task; resolves once it is stored. Fails with {@link CallboardError}. A task without an `id` gets one here: when
   * the response was lost (`transport-unavailable`, `outcome` `unknown`), submitting it again with `details.id` adds it once.
   */
  submit<R = unknown>(task: string, fields?: SubmissionFields): Promise<HttpSubmittedJob<R>>
  /**
   * Submits tasks in one request, 1,000 at most. The whole array is checked first: an invalid element fails the call,
   * with its `index`. Then each element has a result of its own, in order; one whose response was lost names its `id`, as in
   * {@link submit}. With `atomic` all are stored or none, and the call fails as a whole.
   */
  submitMany(
    submissions: ReadonlyArray<Submission>,
    options?: { readonly atomic?: boolean | undefined },
  ): Promise<ReadonlyArray<Receipt | CallboardError>>
  /** A handle of a job by its id. No request is sent until a method is called. */
  job<R = unknown>(id: string): HttpJob<R>
  /** Tasks that are submitted by the clock. */
  readonly schedules: HttpSchedules
  /** A job board, from which workers claim the jobs they want. Fails with `invalid-input`. */
  board(name: string): HttpBoard
  /**
   * Resolves when the service is ready: its worker consumes, and its transport is within reach. Needs no token. Fails with
   * `transport-unavailable`, saying why.
   */
  health(): Promise<void>
}

const DEFAULT_TIMEOUT = "10 seconds"

/** Least time between two requests for a result, for a service that answers before the asked wait is over. */
const AGAIN_MS = 1_000

/** The characters that a header can carry. */
const TOKEN = /^[\x21-\x7e]+$/

/**
 * A client over the HTTP of a service at `url`: `http://127.0.0.1:7420`, with the path where it is mounted, if any. No request
 * is sent yet. Fails with `CallboardError` `invalid-input`, naming the option.
 *
 * @example
 * ```ts
 * const client = connectHttp("http://127.0.0.1:7420", { token: process.env.TOKEN })
 * const job = await client.submit("orders.total", { input: { items: ["tea"] } })
 * const total = await job.result({ timeout: "30 seconds" })
 * ```
 */
export const connectHttp = (url: string, settings: HttpClientSettings = {}): HttpClient => {
  checkSettings(settings)
  const { token, timeout = DEFAULT_TIMEOUT } = settings
  if (token !== undefined && !TOKEN.test(token)) refuseInput("token", "must be one or more visible ASCII characters")
  return clientOf(requestsTo(baseOf(url), token, milliseconds("timeout", timeout)))
}

const baseOf = (text: string): string => {
  const url = URL.canParse(text) ? new URL(text) : refuseInput("url", "must be a URL such as http://127.0.0.1:7420")
  if (!/^https?:$/.test(url.protocol))
    refuseInput("url", "must begin with http:// or https://; for transports use connect()")
  if (url.username !== "" || url.password !== "") refuseInput("url", "must not contain a password: use `token`")
  if (url.search !== "" || url.hash !== "") refuseInput("url", "must end with the path at which the service is mounted")
  return url.origin + (url.pathname.endsWith("/") ? url.pathname.slice(0, -1) : url.pathname)
}

interface OverHttp {
  readonly request: Request
  readonly ask: Ask
}

const end = ({ request }: OverHttp, id: string, options: WaitOptions): Promise<Outcome> =>
  waitForEnd(request, id, timeoutMsOf(options), options.signal)

/** What the methods of a handle do over HTTP. */
const OVER_HTTP: HandleActions<OverHttp> = {
  find: ({ ask }, id) => ask("GET /v1/jobs/{id}", { id }, "state"),
  result: async (over, id, options) => valueOf(id, await end(over, id, options)),
  outcome: end,
  results: async ({ ask }, id, options) => {
    const { signal } = options
    const until = performance.now() + resultsWaitMsOf(options)
    for (;;) {
      const left = until - performance.now()
      const waitMs = Math.ceil(Math.min(Math.max(left, 0), POLL_MS))
      const call = { id, query: { wait: `${waitMs}ms` }, waitMs, signal }
      const { results } = await ask("GET /v1/jobs/{id}/results", call, "results")
      if (results.length > 0 || left <= POLL_MS) return results
    }
  },
  cancel: ({ ask }, id, options) => ask("POST /v1/jobs/{id}/cancel", { id, query: options }, "state"),
  retry: ({ ask }, id, options) => ask("POST /v1/jobs/{id}/retry", { id, query: options }, "state"),
  patchMeta: ({ ask }, id, patch) => ask("PATCH /v1/jobs/{id}/meta", { id, body: patch }, "state"),
  delete: async ({ ask }, id, options) => {
    const call = { id, query: options, waitMs: options.dependents ? POLL_MS : 0 }
    // A service that has not deleted all dependents in time wants to be called again.
    while ((await ask("DELETE /v1/jobs/{id}", call, "partial")) !== undefined);
  },
}

const clientOf = (request: Request): HttpClient => {
  const ask = askOver(request)

  const job = <R>(id: string): HttpJob<R> => ({
    ...handleOf<OverHttp, R>(OVER_HTTP, { request, ask }, id),
    link: async (options = {}) => ask("POST /v1/jobs/{id}/link", { id, body: options }, "token"),
  })

  return {
    submit: async <R>(task: string, fields: SubmissionFields = {}) => {
      checkFields(fields)
      const body = prepared({ ...fields, task })
      const answer = Result.flatMap(await request("POST /v1/jobs", { body }), readable(isAboutJob))
      if (Result.isFailure(answer)) throw unconfirmed(body.id, answer.failure.error)
      return { ...job<R>(answer.success.id), receipt: receiptOf(answer.success) }
    },
    submitMany: async (submissions, options = {}) => {
      refuseUnknown(options, { atomic: true }, "submitMany()")
      const { atomic = false } = options
      checkTasks(submissions)
      if (submissions.length === 0) return []
      const body = submissions.map((each, index) => prepared(each, index))
      const sent = await request("POST /v1/jobs/batch", { body, query: atomic ? { atomic } : {} })
      const answer = Result.flatMap(
        sent,
        readable((told) => isAboutTasks(told, body.length)),
      )
      if (Result.isSuccess(answer)) {
        return answer.success.map((each) => ("code" in each ? errorOf(each) : receiptOf(each)))
      }
      const { error, each } = answer.failure
      if (atomic) throw error
      if (each !== undefined) return each
      if (!isUnconfirmed(error)) throw error
      return body.map(({ id }) => unconfirmed(id, error))
    },
    job,
    schedules: httpSchedules({ request, ask }),
    board: (name) => httpBoard(ask, name),
    health: async () => void (await ask("GET /readyz", {}, "ready")),
  }
}

const httpSchedules = ({ request, ask }: OverHttp): HttpSchedules => ({
  create: async (name, fields) =>
    ask("POST /v1/schedules", { body: { ...fields, name: checkScheduleName(name) } }, "name"),
  find: async (name) => ask("GET /v1/schedules/{id}", { id: checkScheduleName(name) }, "name"),
  list: async (query = {}) => {
    refuseUnknown(query, SCHEDULE_QUERY, "schedules.list()")
    const { limit, after } = query
    return ask("GET /v1/schedules", { query: { limit, cursor: after } }, "schedules")
  },
  change: async (name, changes) =>
    ask("PATCH /v1/schedules/{id}", { id: checkScheduleName(name), body: changes }, "name"),
  pause: async (name) => ask("POST /v1/schedules/{id}/pause", { id: checkScheduleName(name) }, "name"),
  resume: async (name) => ask("POST /v1/schedules/{id}/resume", { id: checkScheduleName(name) }, "name"),
  run: async (name) => ask("POST /v1/schedules/{id}/run", { id: checkScheduleName(name) }, "id"),
  delete: async (name) => {
    const answer = await request("DELETE /v1/schedules/{id}", { id: checkScheduleName(name) })
    if (Result.isFailure(answer)) throw answer.failure.error
  },
})

/** The task as it is sent. Fails as a client over a transport does for what plain JSON cannot hold. */
const prepared = (task: Submission, index?: number): Submission => {
  const plain = withPlainFields(task)
  if (Result.isSuccess(plain)) return withId(plain.success)
  const { code, message, details } = plain.failure
  throw new CallboardError(code, message, { ...details, ...compact({ index }) })
}

/** The task with an id. One that is to be unique needs an id of its caller, and is sent without one to be refused. */
const withId = (task: Submission): Submission =>
  task.id === undefined && task.unique === undefined ? { ...task, id: generateId() } : task

const receiptOf = ({ href: _, ...receipt }: Answer<"POST /v1/jobs">): Receipt => receipt

/** Whether an answer says how a job is. */
const isAboutJob = (answer: unknown): boolean =>
  isMap(answer) && typeof answer["id"] === "string" && isState(answer["state"])

/** Whether an answer has a receipt or an error for each task. */
const isAboutTasks = (answer: unknown, count: number): boolean =>
  Array.isArray(answer) &&
  answer.length === count &&
  answer.every((each) => isAboutJob(each) || (isMap(each) && typeof each["code"] === "string"))

/** The answer if it says what the caller has to know. */
const readable =
  (isReadable: (answer: unknown) => boolean) =>
  <A>(answer: A): Result.Result<A, Refusal> =>
    isReadable(answer) ? Result.succeed(answer) : Result.fail({ error: unreadable() })

/** Whether a task may have been accepted although its submission failed, or can be submitted again later. */
const isUnconfirmed = ({ code }: CallboardError): boolean => code === "transport-unavailable" || code === "internal"

/** The error of a failed submission. If the task may have been accepted, it names the id, unless the service did. */
const unconfirmed = (id: string | undefined, error: CallboardError): CallboardError => {
  const { code, details, message } = error
  if (!isUnconfirmed(error) || details.id !== undefined || id === undefined) return error
  return new CallboardError(
    code,
    `the task was not confirmed (${message}); it is safe to submit it again with id ${id}`,
    { outcome: "unknown", ...details, id },
  )
}

/**
 * Polls for the end of a job until it has ended or the timeout is over. Once the service has answered, the wait goes on also
 * while the service cannot be reached, as it may be back before the timeout.
 */
const waitForEnd = async (
  request: Request,
  id: string,
  limitMs: number,
  signal: AbortSignal | undefined,
): Promise<Outcome> => {
  const began = performance.now()
  const leftMs = () => limitMs - (performance.now() - began)
  for (let hasAnswered = false; ; ) {
    const asked = performance.now()
    const waitMs = Math.ceil(Math.min(Math.max(leftMs(), 0), POLL_MS))
    const answer = await request("GET /v1/jobs/{id}/result", { id, query: { wait: `${waitMs}ms` }, waitMs, signal })
    const found = Result.flatMap(answer, readable(isAboutJob))
    if (Result.isSuccess(found)) {
      hasAnswered = true
      const outcome = outcomeOf(found.success)
      if (outcome !== undefined) return outcomeInCode(outcome)
    } else {
      const { error } = found.failure
      if (error.code === "gone") return { state: "gone" }
      if (!hasAnswered || error.code !== "transport-unavailable") throw error
    }
    signal?.throwIfAborted()
    await sleep(Math.max(0, Math.min(AGAIN_MS - (performance.now() - asked), leftMs())), signal)
    signal?.throwIfAborted()
    if (leftMs() <= 0) throw new WaitTimeout(id, limitMs)
  }
}
