/** The result of a submission: a receipt, or why the task is not known to be stored. */
import { CallboardError } from "../errors.ts"
import type { State } from "../protocol/state.ts"
import type { Transport } from "../transport/lift/transport.ts"
import { TransportError } from "../transport/mod.ts"

/** The task is stored, as durably as `durability` says; with `duplicate` it was stored before. */
export interface Receipt {
  readonly id: string
  /** `queued`, `scheduled` or `deferred`; of a duplicate the state that its job has now. */
  readonly state: State
  readonly durability: Transport["capabilities"]["durability"]
  /** The job was known already: nothing was added. */
  readonly duplicate?: true
}

/** The result of one task among several. */
export type SubmitResult = Receipt | CallboardError

/** The error of a task that the transport did not confirm. `outcome` is given where nothing was published yet. */
export const publishFailed = (
  id: string,
  error: TransportError | undefined,
  outcome = error?.outcome ?? "unknown",
): CallboardError => {
  const cause = error ?? new TransportError("internal", "the transport gave no receipt")
  const { code, message } = cause
  switch (code) {
    case "too-large":
    case "unsupported":
    case "invalid-input":
      return new CallboardError(code, message, { id, cause })
    default:
      return new CallboardError(
        "transport-unavailable",
        `the task was not confirmed (${message}); submitting it again with id ${id} is safe`,
        { id, outcome, cause },
      )
  }
}
