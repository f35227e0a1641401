/** Sends one HTTP request to a route of a service; the result is the JSON of the answer, or an error with a code. */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { CallboardError } from "../errors.ts"
import { errorOf, Problem } from "../jobs/responses.ts"
import { renderJson } from "../protocol/codec/json.ts"
import { compact } from "../protocol/compact.ts"
import { isMap, isObject } from "../protocol/guards.ts"
import type { Answer, RouteAddress, RouteRequest } from "../routes/routes.ts"
import { startDeadline } from "../transport/timers.ts"

/** How a request is sent. */
export interface RequestOptions {
  /** How long the service was asked to wait before it answers, in milliseconds. Defaults to 0. */
  readonly waitMs?: number
  readonly signal?: AbortSignal | undefined
}

/** What a request holds, whatever its route. */
interface Parts {
  readonly id?: string
  readonly board?: string
  readonly query?: Query
  /** Sent as JSON. */
  readonly body?: unknown
}

type Query = Readonly<Record<string, unknown>>

/** Longest wait in one request: some proxies cut a connection on which nothing happens for half a minute. */
export const POLL_MS = 20_000

/** Why a request failed. */
export interface Refusal {
  readonly error: CallboardError
  /** The error of each task of an array, where the service names them. */
  readonly each?: ReadonlyArray<CallboardError>
}

type Call<A extends RouteAddress> = RouteRequest<A> & RequestOptions

/**
 * Sends a request to a route of the service. Rejects with the signal's reason when that fires, and with nothing else.
 */
export type Request = <A extends RouteAddress>(address: A, call: Call<A>) => Promise<Result.Result<Answer<A>, Refusal>>

/** Name of a field that an answer has. */
type FieldOf<T> = T extends unknown ? keyof T & string : never

/**
 * Sends a request to a route. Fails with the error that the service answers with, and with `internal` for an answer without
 * `field`: another program, or another version of the service, gave it. `undefined` is the answer to a deletion.
 */
export type Ask = <A extends RouteAddress>(
  address: A,
  call: Call<A>,
  field: FieldOf<Exclude<Answer<A>, undefined>>,
) => Promise<Answer<A>>

/** {@link Ask} by a {@link Request}. */
export const askOver =
  (request: Request): Ask =>
  async (address, call, field) => {
    const answer = await request(address, call)
    if (Result.isFailure(answer)) throw answer.failure.error
    const told: unknown = answer.success
    const isNothing = told === undefined && address.startsWith("DELETE ")
    if (!isNothing && !(isMap(told) && told[field] !== undefined)) throw unreadable()
    return answer.success
  }

/** The error for an answer that does not say what it must. */
export const unreadable = (): CallboardError =>
  new CallboardError("internal", "the answer of the service cannot be read: another version wrote it")

/** A part of a path that is empty, `.` or `..`: addresses are written without these, so that the request would go to another route. */
const UNNAMED = /\/\.{0,2}(?=[/?]|$)/

/** Parameters as a query, such as `?terminate=true`. Those without a value are left out. */
const queryOf = (given: Query): string => {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(given)) if (value !== undefined) query.set(name, `${value}`)
  return query.size === 0 ? "" : `?${query}`
}

/** The path of a route with what it names. */
const pathOf = (path: string, { id = "", board = "" }: Parts): string =>
  path.replace("{board}", () => encodeURIComponent(board)).replace("{id}", () => encodeURIComponent(id))

export const requestsTo = (base: string, token: string | undefined, timeoutMs: number): Request => {
  const authorization: Readonly<Record<string, string>> =
    token === undefined ? {} : { authorization: `Bearer ${token}` }
  const send = async (
    address: string,
    { waitMs = 0, signal, ...parts }: Parts & RequestOptions,
  ): Promise<Result.Result<unknown, Refusal>> => {
    const { body, query = {} } = parts
    const [method = "", template = ""] = address.split(" ")
    const path = pathOf(template, parts)
    const [unnamed] = UNNAMED.exec(path) ?? []
    if (unnamed !== undefined) {
      const message = `the id ${JSON.stringify(unnamed.slice(1))} cannot be used over HTTP`
      return Result.fail({ error: new CallboardError("not-found", message) })
    }
    const json = body === undefined ? Result.succeed(undefined) : asJson(body)
    if (Result.isFailure(json)) return Result.fail({ error: json.failure })
    const stop = new AbortController()
    const abort = () => stop.abort()
    signal?.throwIfAborted()
    signal?.addEventListener("abort", abort, { once: true })
    const cancel = startDeadline(timeoutMs + waitMs, abort)
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
      cancel()
      signal?.removeEventListener("abort", abort)
    }
  }
  // The description of a route says what the service answers with.
  return send as Request
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
  if (ok && (value === undefined || isObject(value))) return Result.succeed(value)
  const problem = readProblem(value)
  if (Result.isFailure(problem)) return Result.fail({ error: external(base, status) })
  const { errors, ...whole } = problem.success
  return Result.fail({ error: errorOf(whole), ...compact({ each: errors?.map(errorOf) }) })
}

const external = (base: string, status: number): CallboardError =>
  new CallboardError(
    "transport-unavailable",
    `${base} answered with status ${status}, but not as Callboard does: check the address and any proxy in front of it`,
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
