/** Errors of boards: what the rules refuse and what the store answers, as `CallboardError`. */
import * as Result from "effect/Result"
import { asTransportError, CallboardError } from "../errors.ts"
import type { BoardRefusal } from "../protocol/board.ts"

/** The value, or throws the refusal as `CallboardError`. */
export const accepted = <A>(decided: Result.Result<A, BoardRefusal>): A => {
  if (Result.isSuccess(decided)) return decided.success
  const { code, message, field } = decided.failure
  throw new CallboardError(code, message, field === undefined ? {} : { field })
}

export const notConnected = (board: string): CallboardError =>
  new CallboardError("not-connected", `the board ${board} is not connected: call connect() first`, { outcome: "none" })

export const missing = (id: string): never => {
  const message = `job ${id} is not on the board: it was consumed or trashed, or was never posted`
  throw new CallboardError("not-found", message, { id })
}

export const neverPosted = (id: string): never => {
  const message = `${JSON.stringify(id.slice(0, 60))} is not the id of a job of a board: use the id that posting returned`
  throw new CallboardError("not-found", message, { id })
}

/** What an operation threw: an error of the transport becomes a `CallboardError` that has it as its cause. */
export const boardError = (board: string, thrown: unknown): unknown => {
  if (thrown instanceof CallboardError) return thrown
  const cause = asTransportError(thrown)
  const { message, outcome, reason, code } = cause
  if (reason === "closed") return notConnected(board)
  if (reason === "internal") return cause
  return new CallboardError(code, message, code === "transport-unavailable" ? { outcome, cause } : { cause })
}
