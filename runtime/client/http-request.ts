/** Sends one HTTP request to a service; the result is the decoded JSON, or an error with a code. */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { CallboardError } from "../errors.ts"
import { errorOf, Problem } from "../jobs/responses.ts"
import { renderJson } from "../protocol/codec/json.ts"
import { compact } from "../protocol/compact.ts"

export interface RequestOptions {
  /** Defaults to GET. */
  readonly method?: "GET" | "POST" | "PATCH" | "DELETE"
  /** Sent as JSON. */
  readonly body?: unknown
  /** Parameters of the query; those that are `undefined` are left out. */
  readonly query?: Query | undefined
  /** How long the service was asked to wait before it answers, in milliseconds. Defaults to 0. */
  readonly waitMs?: number
  readonly signal?: AbortSignal | undefined
}

type Query = Readonly<Record<string, string | number | boolean | undefined>>

/** Longest wait in one request: some proxies cut a connection on which nothing happens for half a minute. */
export const POLL_MS = 20_000

/** Why a request failed. */
export interface Refusal {
  readonly error: CallboardError
  /** The error of each task of an array, where the service names them. */
  readonly each?: ReadonlyArray<CallboardError>
}

/**
 * Sends a request to a path of the service. Rejects with the signal's reason when that fires, and with nothing else.
 */
export type Request = (path: string, options?: RequestOptions) => Promise<Result.Result<unknown, Refusal>>

/** Sends a request and decodes the response. Fails with the error that the service answers with. */
export type Ask = <S extends Schema.Codec<unknown, unknown>>(
  schema: S,
  path: string,
  options?: RequestOptions,
) => Promise<S["Type"]>

/** A part of a path that is empty, `.` or `..`: addresses are written without these, so that the request would go to another route. */
const UNNAMED = /\/\.{0,2}(?=[/?]|$)/

/** Parameters as a query, such as `?terminate=true`. Those without a value are left out. */
const queryOf = (given: Query): string => {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(given)) if (value !== undefined) query.set(name, `${value}`)
  return query.size === 0 ? "" : `?${query}`
}

export const requestsTo = (base: string, token: string | undefined, timeoutMs: number): Request => {
  const authorization: Readonly<Record<string, string>> =
    token === undefined ? {} : { authorization: `Bearer ${token}` }
  return async (path, { method = "GET", body, query = {}, waitMs = 0, signal } = {}) => {
    const [unnamed] = UNNAMED.exec(path) ?? []
    if (unnamed !== undefined) {
      const message = `there is nothing with the id ${JSON.stringify(unnamed.slice(1))} over HTTP`
      return Result.fail({ error: new CallboardError("not-found", message) })
    }
    const json = body === undefined ? Result.succeed(undefined) : asJson(body)
    if (Result.isFailure(json)) return Result.fail({ error: json.failure })
    const stop = new AbortController()
    const abort = () => stop.abort()
    signal?.throwIfAborted()
    signal?.addEventListener("abort", abort, { once: true })
    const timer = setTimeout(abort, timeoutMs + waitMs)
    try {
      const response = await fetch(base + path + queryOf(query), {
        method,
        headers: { ...authorization, ...(body === undefined ? {} : { "content-type": "application/json" }) },
        // A redirected POST would become a GET.
        redirect: "manual",
        signal: stop.signal,
        ...compact({ body: json.success }),
      })
      return answerOf(base, response.ok, response.status, await response.text())
    } catch (cause) {
      signal?.throwIfAborted()
      const why = stop.signal.aborted ? `within ${(timeoutMs + waitMs) / 1000} s` : `(${reasonOf(cause)})`
      const outcome = neverSent(cause) ? "none" : "unknown"
      const message = `${base} did not answer ${why}`
      return Result.fail({ error: new CallboardError("transport-unavailable", message, { outcome, cause }) })
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener("abort", abort)
    }
  }
}

/** The body as JSON, written as a client over a transport writes the arguments of a task. */
const asJson = (body: unknown): Result.Result<string, CallboardError> => {
  const text = renderJson(body)
  return Result.isSuccess(text)
    ? Result.succeed(text.success)
    : Result.fail(new CallboardError("invalid-input", `the task ${text.failure.message}`))
}

const readProblem = Schema.decodeUnknownResult(Problem)

/**
 * The JSON of a response, or the error that it stands for. A body that is not JSON comes from something in between, such as
 * a proxy.
 */
const answerOf = (base: string, ok: boolean, status: number, text: string): Result.Result<unknown, Refusal> => {
  let value: unknown
  try {
    value = text === "" ? undefined : JSON.parse(text)
  } catch {
    return Result.fail({ error: external(base, status) })
  }
  if (ok) return Result.succeed(value)
  const problem = readProblem(value)
  if (Result.isFailure(problem)) return Result.fail({ error: external(base, status) })
  const { errors, ...whole } = problem.success
  return Result.fail({ error: errorOf(whole), ...compact({ each: errors?.map(errorOf) }) })
}

const external = (base: string, status: number): CallboardError =>
  new CallboardError(
    "transport-unavailable",
    `${base} answered with status ${status}, and not as Callboard does: check the address, and any proxy before it`,
    { outcome: "unknown" },
  )

/** Runtimes name the fault of a connection in the error, or in its cause. */
const faultOf = (cause: unknown): unknown =>
  cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause

const reasonOf = (cause: unknown): string => {
  const fault = faultOf(cause)
  if (!(fault instanceof Error)) return String(fault)
  return fault.message === "" && "code" in fault ? String(fault.code) : fault.message
}

/** Codes of connection errors that come before anything is sent. */
const UNSENT: ReadonlyArray<unknown> = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN"]

const neverSent = (cause: unknown): boolean => {
  const fault = faultOf(cause)
  if (!(fault instanceof Error)) return false
  // Deno gives no code; its message names the phase.
  return "code" in fault ? UNSENT.includes(fault.code) : fault.message.includes("client error (Connect)")
}
