/** Errors that an application or an HTTP client can act on. Each says in its message what to do. */

import { compact } from "./protocol/compact.ts"
import type { JobError } from "./protocol/record.ts"
import { TransportError } from "./transport/errors.ts"

/** The error of a call to a transport. An error that is no `TransportError` is a bug of the plugin: `internal`. */
export const asTransportError = (cause: unknown): TransportError =>
  cause instanceof TransportError ? cause : new TransportError("internal", String(cause), { cause })

/** All error codes. */
export const ERROR_CODES = [
  "invalid-json",
  "invalid-input",
  "unknown-field",
  "unknown-actor",
  "unsupported",
  "unauthorized",
  "forbidden",
  "not-found",
  "already-terminal",
  "job-exists",
  "schedule-exists",
  "unclaimable",
  "not-owner",
  "gone",
  "too-large",
  "unsupported-content-type",
  "idempotency-mismatch",
  "matches-differ",
  "rate-limited",
  "overloaded",
  "internal",
  "transport-unavailable",
  "not-connected",
] as const

/** The `code` of an HTTP problem, and of {@link CallboardError}. */
export type ErrorCode = (typeof ERROR_CODES)[number]

export interface ErrorDetails {
  /** The field of the request that is wrong, as a path: `retry.max`. */
  readonly field?: string
  /** Index of the element of an array that is wrong, from 0. */
  readonly index?: number
  /** Id of the job that the request is about. */
  readonly id?: string
  /** Whether a failed submission may have been accepted all the same. Submitting again with the same id is safe. */
  readonly outcome?: "none" | "unknown"
  /** The scope that the token lacks. */
  readonly scope?: string
  readonly cause?: unknown
}

/** A request that was refused or could not be carried out. */
export class CallboardError extends Error {
  readonly _tag = "CallboardError"
  override readonly name = "CallboardError"
  readonly code: ErrorCode
  readonly details: ErrorDetails
  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, compact({ cause: details.cause }))
    this.code = code
    this.details = details
  }
}

/**
 * Whether an error is a {@link CallboardError}, also one of another copy of this package, of which `instanceof` knows nothing:
 * a bundle may hold one of its own.
 */
export const isCallboardError = (error: unknown): error is CallboardError =>
  error instanceof Error && "_tag" in error && error._tag === "CallboardError"

/** The job failed. `error` is the error of its record: name, message, reason, traceback. */
export class JobFailed extends Error {
  readonly _tag = "JobFailed"
  override readonly name = "JobFailed"
  readonly id: string
  readonly error: JobError
  constructor(id: string, error: JobError) {
    super(`job ${id} failed: ${error.name}: ${error.message}`)
    this.id = id
    this.error = error
  }
}

/** The job was cancelled, and has no result. */
export class JobCancelled extends Error {
  readonly _tag = "JobCancelled"
  override readonly name = "JobCancelled"
  readonly id: string
  constructor(id: string) {
    super(`job ${id} was cancelled`)
    this.id = id
  }
}

/** The `expires` of the job passed before it was started. */
export class JobExpired extends Error {
  readonly _tag = "JobExpired"
  override readonly name = "JobExpired"
  readonly id: string
  constructor(id: string) {
    super(`job ${id} expired before it was started`)
    this.id = id
  }
}

/** The job ended, and its result is not kept any more. */
export class ResultGone extends Error {
  readonly _tag = "ResultGone"
  override readonly name = "ResultGone"
  readonly id: string
  constructor(id: string) {
    super(`the result of job ${id} is no longer kept: raise resultTtl or failureTtl to keep results longer`)
    this.id = id
  }
}

/** The job had not ended when the timeout of the wait was over. The job goes on. */
export class WaitTimeout extends Error {
  readonly _tag = "WaitTimeout"
  override readonly name = "WaitTimeout"
  readonly id: string
  constructor(id: string, waitedMs: number) {
    super(`job ${id} did not end within ${waitedMs / 1000} s; it is still running`)
    this.id = id
  }
}
