/**
 * A client that speaks HTTP to a service, for applications that cannot reach the broker: by `fetch`, with the same
 * handles and errors.
 */
import { type ActorHandle, type AnyActor, actorHandle } from "../actor/actor-handle.ts"
import { CallboardError, WaitTimeout } from "../errors.ts"
import { generateId } from "../id.ts"
import {
  HANDLE,
  type HandleActions,
  handleOf,
  type JobHandle,
  resultsWaitMsOf,
  timeoutMsOf,
  type WaitOptions,
} from "../jobs/handle.ts"
import type { JobLink, LinkOptions } from "../jobs/link.ts"
import { errorOf } from "../jobs/problem-error.ts"
import type { Receipt } from "../jobs/receipt.ts"
import { checkFields, checkTasks, withPlainFields } from "../jobs/submission/plain-fields.ts"
import type { Submission, SubmissionFields } from "../jobs/submission/submission.ts"
import { type Outcome, outcomeOf, valueOf } from "../jobs/tracking/outcome.ts"
import { type DurationInput, milliseconds } from "../options/duration.ts"
import { durationIn, plainParser, type Rule } from "../options/plain.ts"
import { refuseInput, refuseUnknown } from "../options/refuse.ts"
import { isMap } from "../protocol/guards.ts"
import { isState } from "../protocol/state.ts"
import type { Answer } from "../routes/routes.ts"
import { checkScheduleName } from "../schedules/name.ts"
import { SCHEDULE_QUERY } from "../schedules/query.ts"
import type { Schedules } from "../schedules/schedules.ts"
import { sleep } from "../transport/timers.ts"
import { httpEvents } from "./http-events.ts"
import { resultOf } from "./http-json.ts"
import {
  type Ask,
  askOver,
  POLL_MS,
  Refusal,
  type Request,
  requestsTo,
  type Service,
  unreadable,
} from "./http-request.ts"

export interface HttpClientSettings {
  /** Sent as `Authorization: Bearer <token>`. Defaults to none; a service that has tokens answers only with one. */
  readonly token?: string | undefined
  /** Longest wait for an answer of the service, beside the wait for a job's end: 1 ms to 1 day. Defaults to 10 seconds. */
  readonly timeout?: DurationInput | undefined
}

/** The characters that a header can carry. */
const TOKEN = /^[\x21-\x7e]+$/

const tokenRule: Rule = (token) => {
  if (typeof token !== "string") return "must be text"
  return TOKEN.test(token) ? undefined : "must be one or more visible ASCII characters"
}

const settingsOf = plainParser<HttpClientSettings>(
  { token: tokenRule, timeout: durationIn({ min: 1, max: 86_400_000 }) },
  "connectHttp()",
)

/**
 * A job by its id, over HTTP: the methods of {@link JobHandle}. Every method fails with `CallboardError`:
 * `unauthorized`, `forbidden`, `transport-unavailable`, `gone` for a job that is not kept any more, and as {@link JobHandle}
 * says.
 */
export interface HttpJob<R = unknown> extends JobHandle<R> {
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
  /**
   * A typed handle of an actor: `client.actor<typeof orders>("orders").total.submit({ items })`, with
   * `import type { orders }`. The actor's module is not loaded.
   */
  actor<A extends AnyActor>(name: A["name"]): ActorHandle<A>
  /** A handle of a job by its id. No request is sent until a method is called. */
  job<R = unknown>(id: string): HttpJob<R>
  /** Tasks that are submitted by the clock. */
  readonly schedules: HttpSchedules
  /**
   * Resolves when the service is ready: its worker consumes, and its transport is within reach. Needs no token. Fails with
   * `transport-unavailable`, saying why.
   */
  health(): Promise<void>
}

const DEFAULT_TIMEOUT = "10 seconds"

/** Least time between two requests for a result, for a service that answers before the asked wait is over. */
const AGAIN_MS = 1_000

/**
 * A client over the HTTP of a service at `url`: `http://127.0.0.1:7420`, with the path where it is mounted, if any; in a
 * browser also a path of the page's own origin, such as `/callboard`. No request is sent yet. Fails with `CallboardError` `invalid-input`, naming the option.
 *
 * @example
 * ```ts
 * const client = connectHttp("http://127.0.0.1:7420", { token: process.env.TOKEN })
 * const job = await client.submit("orders.total", { input: { items: ["tea"] } })
 * const total = await job.result({ timeout: "30 seconds" })
 * ```
 */
export const connectHttp = (url: string, settings: HttpClientSettings = {}): HttpClient => {
  const { token, timeout = DEFAULT_TIMEOUT } = settingsOf(settings)
  return clientOf({ base: baseOf(url), token, timeoutMs: milliseconds("timeout", timeout) })
}

/** The address of the page in a browser. */
const pageUrl = (): string | undefined => {
  const location: unknown = Reflect.get(globalThis, "location")
  return isMap(location) && typeof location["href"] === "string" ? location["href"] : undefined
}

const baseOf = (text: string): string => {
  const page = pageUrl()
  const url = URL.canParse(text, page)
    ? new URL(text, page)
    : refuseInput("url", "must be a URL such as http://127.0.0.1:7420")
  if (!/^https?:$/.test(url.protocol))
    refuseInput("url", "must begin with http:// or https://; for transports use connect()")
  if (url.username + url.password !== "") refuseInput("url", "must not contain a password: use `token`")
  if (url.search + url.hash !== "") refuseInput("url", "must end with the path at which the service is mounted")
  return url.origin + url.pathname.replace(/\/$/, "")
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
  result: async (over, id, options) => {
    const result = valueOf(id, await end(over, id, options))
    // The service leaves out a result that the token may not see.
    if (result === undefined)
      throw new CallboardError("forbidden", "this token lacks the scope payload", { scope: "payload" })
    return result
  },
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
  signal: ({ ask }, id, { name, ...body }) => ask("POST /v1/jobs/{id}/signals/{name}", { id, name, body }),
  delete: async ({ ask }, id, options) => {
    const call = { id, query: options, waitMs: options.dependents ? POLL_MS : 0 }
    // A service that has not deleted all dependents in time wants to be called again.
    while ((await ask("DELETE /v1/jobs/{id}", call, "partial")) !== undefined);
  },
}

const clientOf = (service: Service): HttpClient => {
  const request = requestsTo(service)
  const ask = askOver(request)

  const job = <R>(id: string): HttpJob<R> =>
    Object.assign(handleOf<OverHttp, R>(OVER_HTTP, { request, ask }, id), {
      events: (options?: unknown) => httpEvents(service, id, HANDLE.events.parse(options, id)),
      link: async (options: LinkOptions = {}) => ask("POST /v1/jobs/{id}/link", { id, body: options }, "token"),
    })

  const client: HttpClient = {
    actor: <A extends AnyActor>(name: A["name"]) =>
      actorHandle<A>(name, {
        submit: (task, fields) => client.submit(task, fields),
        submitMany: async (submissions) =>
          (await client.submitMany(submissions)).map((each) =>
            each instanceof CallboardError ? each : { ...job(each.id), receipt: each },
          ),
      }),
    submit: async <R>(task: string, fields: SubmissionFields = {}) => {
      checkFields(fields)
      const body = prepared({ ...fields, task })
      const answer = readable(await request("POST /v1/jobs", { body }), isAboutJob)
      if (answer instanceof Refusal) throw unconfirmed(body.id, answer.error)
      return { ...job<R>(answer.id), receipt: receiptOf(answer) }
    },
    submitMany: async (submissions, options = {}) => {
      refuseUnknown(options, { atomic: true }, "submitMany()")
      const { atomic = false } = options
      checkTasks(submissions)
      if (submissions.length === 0) return []
      const body = submissions.map((each, index) => prepared(each, index))
      const sent = await request("POST /v1/jobs/batch", { body, query: atomic ? { atomic } : {} })
      const answer = readable(sent, (told) => isAboutTasks(told, body.length))
      if (!(answer instanceof Refusal)) {
        return answer.map((each) => ("code" in each ? errorOf(each) : receiptOf(each)))
      }
      const { error, each } = answer
      if (atomic) throw error
      if (each !== undefined) return each
      if (!isUnconfirmed(error)) throw error
      return body.map(({ id }) => unconfirmed(id, error))
    },
    job,
    schedules: httpSchedules(ask),
    health: async () => void (await ask("GET /readyz", {}, "ready")),
  }
  ASKS.set(client, ask)
  return client
}

/** Boards ask through a client, and are no part of it, so that a page without boards does not load them. */
const ASKS = new WeakMap<HttpClient, Ask>()

export const askOf = (client: HttpClient): Ask =>
  ASKS.get(client) ?? refuseInput("client", "must be a client that connectHttp() returned")

const httpSchedules = (ask: Ask): HttpSchedules => ({
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
  delete: async (name) => ask("DELETE /v1/schedules/{id}", { id: checkScheduleName(name) }),
})

/** The task as it is sent. Fails as a client over a transport does for what plain JSON cannot hold. */
const prepared = (task: Submission, index?: number): Submission => {
  try {
    return withId(withPlainFields(task))
  } catch (refused) {
    if (index === undefined || !(refused instanceof CallboardError)) throw refused
    throw new CallboardError(refused.code, refused.message, { ...refused.details, index })
  }
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
const readable = <A>(answer: A | Refusal, isReadable: (answer: unknown) => boolean): A | Refusal =>
  answer instanceof Refusal || isReadable(answer) ? answer : new Refusal(unreadable())

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
    const found: Parameters<typeof outcomeOf>[0] | Refusal = readable(answer, isAboutJob)
    if (!(found instanceof Refusal)) {
      hasAnswered = true
      const outcome = outcomeOf(found)
      if (outcome !== undefined)
        return outcome.state === "succeeded" ? { ...outcome, result: resultOf(found.result) } : outcome
    } else {
      const { error } = found
      if (error.code === "gone") return { state: "gone" }
      if (!hasAnswered || error.code !== "transport-unavailable") throw error
    }
    signal?.throwIfAborted()
    await sleep(Math.max(0, Math.min(AGAIN_MS - (performance.now() - asked), leftMs())), signal)
    signal?.throwIfAborted()
    if (leftMs() <= 0) throw new WaitTimeout(id, limitMs)
  }
}
