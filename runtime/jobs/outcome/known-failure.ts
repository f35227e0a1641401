/**
 * A failure whose recorded error is known already: it was made where the failure arose, possibly in another process.
 */
import type { JobError } from "../../protocol/record.ts"

export class KnownFailure extends Error {
  override readonly name: string
  readonly error: JobError
  /** Whether the job is not retried, whatever its policy says: a wrong input or result would be wrong again. */
  readonly final: boolean

  constructor(error: JobError, final = false) {
    super(error.message)
    this.name = error.name
    this.error = error
    this.final = final
  }
}
