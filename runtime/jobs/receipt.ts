/** What a submission is answered with: a receipt, or why it is not known to be kept. */
import { CallboardError } from "../errors.ts"
import type { Transport } from "../transport/lift/transport.ts"
import { TransportError } from "../transport/mod.ts"

/** What came of a submission: kept as durably as `durability` says, or known already. */
export interface Receipt {
  readonly id: string
  readonly state: "queued" | "scheduled" | "deferred"
  readonly durability: Transport["capabilities"]["durability"]
  /** The job was known already: nothing was added. */
  readonly duplicate?: true
}

/** Of one task among several. */
export type SubmitResult = Receipt | CallboardError

/** The refusal of a task that the transport did not take. `outcome` is given where nothing was published yet. */
export const publishFailed = (
  id: string,
  error: TransportError | undefined,
  outcome = error?.outcome ?? "unknown",
): CallboardError => {
  const cause = error ?? new TransportError("internal", "the transport gave no receipt")
  switch (cause.reason) {
    case "too-large":
      return new CallboardError("too-large", cause.message, { id, cause })
    case "unsupported":
    case "invalid":
      return new CallboardError(cause.reason === "invalid" ? "invalid-input" : "unsupported", cause.message, {
        id,
        cause,
      })
    default:
      return new CallboardError(
        "transport-unavailable",
        `the task was not confirmed (${cause.message}); submitting it again with id ${id} is safe`,
        { id, outcome, cause },
      )
  }
}
