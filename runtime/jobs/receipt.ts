/** The result of a submission: a receipt, or why the task is not known to be stored. */
import { CallboardError } from "../errors.ts"
import { TransportError } from "../transport/mod.ts"
import type { ReceiptSchema } from "./responses.ts"

/** The task is stored, as durably as `durability` says; with `duplicate` it was stored before. */
export type Receipt = Omit<typeof ReceiptSchema.Type, "href">

/** The result of one task among several. */
export type SubmitResult = Receipt | CallboardError

/** The error of a task that the transport did not confirm. `outcome` is given where nothing was published yet. */
export const publishFailed = (
  id: string,
  error: TransportError | undefined,
  outcome = error?.outcome ?? "unknown",
): CallboardError => {
  const cause = error ?? new TransportError("internal", "the transport did not return a receipt")
  const { code, message } = cause
  switch (code) {
    case "too-large":
    case "unsupported":
    case "invalid-input":
      return new CallboardError(code, message, { id, cause })
    default:
      return new CallboardError(
        "transport-unavailable",
        `the task was not confirmed (${message}); it is safe to submit it again with id ${id}`,
        { id, outcome, cause },
      )
  }
}
