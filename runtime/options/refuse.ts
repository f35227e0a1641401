/** How an option that cannot be used is refused: by its name, with what is wrong. */
import { Result } from "effect"
import { CallboardError } from "../errors.ts"

/** Throws an error of the caller's kind. `message` follows the field's name: `must be more than 0`. */
export type Refuse = (field: string, message: string) => never

/** Throws `CallboardError` `invalid-input`. */
export const refuseInput: Refuse = (field, message) => {
  throw new CallboardError("invalid-input", `${field}: ${message}`, { field })
}

/** What `checked` makes, or the `CallboardError` that it threw; anything else that it throws goes on. */
export const refusals = <A>(checked: () => A): Result.Result<A, CallboardError> => {
  try {
    return Result.succeed(checked())
  } catch (thrown) {
    if (thrown instanceof CallboardError) return Result.fail(thrown)
    throw thrown
  }
}
