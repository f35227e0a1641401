/** A failure of which everything is known where it arises, or was told by the process where it arose: nothing is read off it. */
import type { JobError } from "../../protocol/record.ts"

export class KnownFailure extends Error {
  override readonly name: string
  readonly error: JobError
  /** Not tried again, whatever the method's policy says: input or result is wrong, and would be so again. */
  readonly final: boolean

  constructor(error: JobError, final = false) {
    super(error.message)
    this.name = error.name
    this.error = error
    this.final = final
  }
}
