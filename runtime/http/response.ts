/**
 * Responses: values as JSON, and errors as RFC 9457 problems: the one table from code to status, and the one place where
 * whatever was thrown becomes a response. What a client reads names the fault, never a stack or a secret.
 */
import { createHash } from "node:crypto"
import { CallboardError, type ErrorCode } from "../errors.ts"
import type { ItemProblem, Problem } from "../jobs/responses.ts"
import type { Log } from "../log/log.ts"
import { compact } from "../protocol/compact.ts"
import { UnreadableRecord } from "../transport/errors.ts"
import { TransportError } from "../transport/mod.ts"

export type Headers = Readonly<Record<string, string>>

/** A response with a value as its JSON body. */
export const json = <T>(value: T, status = 200, headers: Headers = {}): Response =>
  new Response(JSON.stringify(value), {
    status,
    headers: {
      "content-type": "application/json",
      "cache-control": "no-store",
      "x-content-type-options": "nosniff",
      ...headers,
    },
  })

/** A value with an `ETag`; 304 where the client has it already, by its `If-None-Match`. No cache keeps it: it may hold secrets. */
export const tagged = <T>(request: Request, value: T): Response => {
  const etag = `"${createHash("sha256").update(JSON.stringify(value)).digest("base64url").slice(0, 22)}"`
  const known = (request.headers.get("if-none-match") ?? "").split(",").map((each) => each.trim().replace(/^W\//, ""))
  const isKnown = known.includes(etag) || known.includes("*")
  return isKnown ? new Response(null, { status: 304, headers: { etag } }) : json(value, 200, { etag })
}

interface ProblemKind {
  readonly status: number
  readonly title: string
}

/** The status and title of each error code. The OpenAPI document and the reference page are made from this table. */
export const PROBLEMS: Readonly<Record<ErrorCode, ProblemKind>> = {
  "invalid-json": { status: 400, title: "The body is not valid JSON" },
  "invalid-input": { status: 400, title: "A value is invalid" },
  "unknown-field": { status: 400, title: "A field or parameter does not exist" },
  "unknown-actor": { status: 400, title: "No known worker serves this task" },
  unsupported: { status: 400, title: "Not supported" },
  unauthorized: { status: 401, title: "A token is required" },
  forbidden: { status: 403, title: "Not allowed" },
  "not-found": { status: 404, title: "Not found" },
  "already-terminal": { status: 409, title: "The job has already ended" },
  "job-exists": { status: 409, title: "The state of the job does not allow it" },
  "schedule-exists": { status: 409, title: "The name of the schedule is in use" },
  unclaimable: { status: 409, title: "The job of the board cannot be claimed now" },
  "not-owner": { status: 409, title: "The job of the board is claimed by another owner" },
  "matches-differ": { status: 409, title: "The matching jobs are not the expected ones" },
  gone: { status: 410, title: "No longer kept" },
  "too-large": { status: 413, title: "Too large" },
  "unsupported-content-type": { status: 415, title: "The content type is not supported" },
  "idempotency-mismatch": { status: 422, title: "The Idempotency-Key was used for another body" },
  "rate-limited": { status: 429, title: "Too many requests" },
  overloaded: { status: 503, title: "Too many requests at a time" },
  internal: { status: 500, title: "Internal error" },
  "transport-unavailable": { status: 503, title: "The transport is unreachable" },
  "not-connected": { status: 503, title: "The service is not connected" },
}

/** Seconds after which an unreachable transport is worth another try. */
const RETRY_AFTER = "1"

const CHALLENGE: Readonly<Partial<Record<ErrorCode, string>>> = { unauthorized: 'Bearer realm="callboard"' }

/** An error as one element of a response to an array. */
export const itemProblem = (error: CallboardError): ItemProblem => {
  const { field, index, id, outcome, scope } = error.details
  return {
    status: PROBLEMS[error.code].status,
    code: error.code,
    detail: error.message,
    ...compact({ field, index, id, outcome, scope }),
  }
}

/** An error as a problem response. `status` and `headers` override those of the code. */
export const problem = (
  error: CallboardError,
  options: {
    readonly status?: number
    readonly headers?: Headers
    readonly errors?: ReadonlyArray<ItemProblem>
  } = {},
): Response => {
  const { code } = error
  const status = options.status ?? PROBLEMS[code].status
  const challenge = CHALLENGE[code]
  const body: typeof Problem.Type = {
    type: `urn:callboard:problem:${code}`,
    title: PROBLEMS[code].title,
    ...itemProblem(error),
    status,
    ...compact({ errors: options.errors }),
  }
  return json(body, status, {
    "content-type": "application/problem+json",
    ...compact({ "www-authenticate": challenge }),
    ...(status === 503 || status === 429 ? { "retry-after": RETRY_AFTER } : {}),
    ...options.headers,
  })
}

/**
 * What a handler threw, as an error with a code. An unexpected error is logged, and its text is not sent to the client.
 */
export const asCallboardError = (thrown: unknown, log: Log): CallboardError => {
  if (thrown instanceof CallboardError && thrown.code !== "internal") return thrown
  if (thrown instanceof UnreadableRecord)
    return new CallboardError("internal", thrown.message, { id: thrown.id, cause: thrown })
  if (thrown instanceof TransportError) {
    const { message, outcome, code } = thrown
    if (code === "transport-unavailable") return new CallboardError(code, message, { outcome, cause: thrown })
    if (code !== "internal") return new CallboardError(code, message, { cause: thrown })
  }
  log.error("a request failed", { cause: thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown) })
  return new CallboardError("internal", "internal error; see the log of the service")
}
