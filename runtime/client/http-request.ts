/** Sends one HTTP request to a route of a service; the result is the JSON of the answer, or an error with a code. */
import { CallboardError } from "../errors.ts"
import { errorOf } from "../jobs/problem-error.ts"
import type { Problem } from "../jobs/responses.ts"
import { isMap, isObject } from "../protocol/guards.ts"
import type { Answer, RouteAddress, RouteRequest } from "../routes/routes.ts"
import { startDeadline } from "../transport/timers.ts"
import { bodyText } from "./http-json.ts"

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
  readonly name?: string
  readonly query?: Query
  /** Sent as JSON. */
  readonly body?: unknown
}

type Query = Readonly<Record<string, unknown>>

/** Longest wait in one request: some proxies cut a connection on which nothing happens for half a minute. */
export const POLL_MS = 20_000

/** Why a request failed. */
export class Refusal {
  readonly error: CallboardError
  /** The error of each task of an array, where the service names them. */
  readonly each: ReadonlyArray<CallboardError> | undefined

  constructor(error: CallboardError, each?: ReadonlyArray<CallboardError>) {
    this.error = error
    this.each = each
  }
}

type Call<A extends RouteAddress> = RouteRequest<A> & RequestOptions

/**
 * Sends a request to a route of the service. Rejects with the signal's reason when that fires, and with `CallboardError` `invalid-input` for a body that cannot be sent.
 */
export type Request = <A extends RouteAddress>(address: A, call: Call<A>) => Promise<Answer<A> | Refusal>

/** Name of a field that an answer has. */
type FieldOf<T> = T extends unknown ? keyof T & string : never

/**
 * Sends a request to a route. Fails with the error that the service answers with, and with `internal` for an answer without
 * `field`: another program, or another version of the service, gave it. `undefined` is the answer to a deletion.
 */
export type Ask = <A extends RouteAddress>(
  address: A,
  call: Call<A>,
  field?: FieldOf<Exclude<Answer<A>, undefined>>,
) => Promise<Answer<A>>

/** {@link Ask} by a {@link Request}. */
export const askOver =
  (request: Request): Ask =>
  async (address, call, field) => {
    const answer = await request(address, call)
    if (answer instanceof Refusal) throw answer.error
    const told: unknown = answer
    const isNothing = told === undefined && (field === undefined || address.startsWith("DELETE "))
    if (!isNothing && !(isMap(told) && told[field ?? ""] !== undefined)) throw unreadable()
    return answer
  }

/** The error for an answer that does not say what it must. */
export const unreadable = (): CallboardError =>
  new CallboardError("internal", "the answer of the service cannot be read: another version wrote it")

/** What no part of a path can be: half a character, nothing, `.` or `..`, since addresses are written without these. */
const UNSENDABLE = /\p{Cs}|^\.{0,2}$/u

/** Parameters as a query, such as `?terminate=true`. Those without a value are left out. */
const queryOf = (given: Query): string => {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(given)) if (value !== undefined) query.set(name, `${value}`)
  return query.size === 0 ? "" : `?${query}`
}

/** The path of a route with what it names. Fails with `not-found`. */
const pathOf = (path: string, parts: Parts): string =>
  path.replace(/{(\w+)}/g, (_all, part: "id" | "board" | "name") => {
    const text = parts[part] ?? ""
    if (!UNSENDABLE.test(text)) return encodeURIComponent(text)
    // The service refuses a control character in the words in which it would refuse this name.
    if (part === "name") return "%7F"
    throw new CallboardError("not-found", `the id ${JSON.stringify(text)} cannot be used over HTTP`)
  })

/** A service, and how it is asked. */
export interface Service {
  /** Its URL, without a slash at the end. */
  readonly base: string
  readonly token: string | undefined
  readonly timeoutMs: number
}

/** The URL of a route with what it names. Fails with `not-found`. */
export const urlOf = ({ base }: Service, template: string, parts: Parts): string =>
  base + pathOf(template, parts) + queryOf(parts.query ?? {})

export const authorizationOf = ({ token }: Service): Readonly<Record<string, string>> =>
  token === undefined ? {} : { authorization: `Bearer ${token}` }

export const requestsTo = (service: Service): Request => {
  const { base, timeoutMs } = service
  const send = async (address: string, { waitMs = 0, signal, ...parts }: Parts & RequestOptions): Promise<unknown> => {
    const { body } = parts
    const [method = "", template = ""] = address.split(" ")
    const url = urlOf(service, template, parts)
    const text = body === undefined ? null : bodyText(body)
    const stop = new AbortController()
    const abort = () => stop.abort()
    signal?.throwIfAborted()
    signal?.addEventListener("abort", abort)
    const cancel = startDeadline(timeoutMs + waitMs, abort)
    try {
      const response = await fetch(url, {
        method,
        headers: { ...authorizationOf(service), ...(text && { "content-type": "application/json" }) },
        // A redirected POST would become a GET.
        redirect: "manual",
        signal: stop.signal,
        body: text,
      })
      return answerOf(base, response.ok, response.status, await response.text())
    } catch (cause) {
      signal?.throwIfAborted()
      return new Refusal(unreachable(service, timeoutMs + waitMs, stop.signal, cause))
    } finally {
      cancel()
      signal?.removeEventListener("abort", abort)
    }
  }
  // The description of a route says what the service answers with.
  return send as Request
}

/** Whether an answer is a problem of Callboard, and not the JSON of a proxy. */
const isProblem = (value: unknown): value is typeof Problem.Type =>
  isMap(value) && typeof value["code"] === "string" && typeof value["detail"] === "string"

/**
 * The JSON of a response, or the error that it stands for. A body that is not JSON comes from something in between, such as
 * a proxy.
 */
export const answerOf = (base: string, ok: boolean, status: number, text: string): unknown => {
  let value: unknown
  try {
    value = text === "" ? undefined : JSON.parse(text)
  } catch {
    return new Refusal(external(base, status))
  }
  if (ok && (value === undefined || isObject(value))) return value
  if (!isProblem(value)) return new Refusal(external(base, status))
  // This client wrote the body, so that what is wrong is not the JSON but a value in it.
  const problem = value.code === "invalid-json" ? { ...value, code: "invalid-input" as const } : value
  return new Refusal(errorOf(problem), value.errors?.map(errorOf))
}

/** The error of a request without an answer. `stopped`: fires when the time, in milliseconds, is over. */
export const unreachable = (
  { base }: Service,
  limitMs: number,
  stopped: AbortSignal,
  cause: unknown,
): CallboardError => {
  const why = stopped.aborted ? `within ${limitMs / 1000} s` : `(${reasonOf(cause)})`
  const outcome = neverSent(cause) ? "none" : "unknown"
  return new CallboardError("transport-unavailable", `${base} did not answer ${why}`, { outcome, cause })
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
