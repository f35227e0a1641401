/** How a wrong option is refused: with its name, and what it must be instead. */
import { Result } from "effect"
import { CallboardError } from "../errors.ts"
import { didYouMean } from "./suggest.ts"

/**
 * Throws the error by which the caller refuses an option. `message` follows the name of the field: `must be more than
 * 0`.
 */
export type Refuse = (field: string, message: string) => never

/** Throws `CallboardError` `invalid-input`. */
export const refuseInput: Refuse = (field, message) => {
  throw new CallboardError("invalid-input", `${field}: ${message}`, { field })
}

/**
 * The value that the function returns, or the `CallboardError` that it threw, as a `Result`. Rethrows every other
 * error.
 */
export const resultOf = <A>(checked: () => A): Result.Result<A, CallboardError> => {
  try {
    return Result.succeed(checked())
  } catch (thrown) {
    if (thrown instanceof CallboardError) return Result.fail(thrown)
    throw thrown
  }
}

/**
 * Throws `invalid-input` for an option that the function `owner` does not have: were a misspelt option ignored, its
 * default would hold.
 */
export const refuseUnknown = (given: object, known: Readonly<Record<string, true>>, owner: string): void => {
  for (const [field, value] of Object.entries(given)) {
    if (value === undefined || Object.hasOwn(known, field)) continue
    const message = `${field} is not an option of ${owner}${didYouMean(field, Object.keys(known))}`
    throw new CallboardError("invalid-input", message, { field })
  }
}
