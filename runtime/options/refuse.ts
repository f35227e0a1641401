/** How an option that cannot be used is refused: by its name, with what is wrong. */
import { Result } from "effect"
import { CallboardError } from "../errors.ts"
import { didYouMean } from "./suggest.ts"

/** Throws an error of the caller's kind. `message` follows the field's name: `must be more than 0`. */
export type Refuse = (field: string, message: string) => never

/** Throws `CallboardError` `invalid-input`. */
export const refuseInput: Refuse = (field, message) => {
  throw new CallboardError("invalid-input", `${field}: ${message}`, { field })
}

/** What `checked` makes, or the `CallboardError` that it threw; anything else that it throws goes on. */
export const resultOf = <A>(checked: () => A): Result.Result<A, CallboardError> => {
  try {
    return Result.succeed(checked())
  } catch (thrown) {
    if (thrown instanceof CallboardError) return Result.fail(thrown)
    throw thrown
  }
}

/** Refuses an option that is not among the known ones, of the function `owner`. Fails with `invalid-input`, naming it. */
export const refuseUnknown = (given: object, known: Readonly<Record<string, true>>, owner: string): void => {
  for (const [field, value] of Object.entries(given)) {
    if (value === undefined || Object.hasOwn(known, field)) continue
    const message = `${field} is not an option of ${owner}${didYouMean(field, Object.keys(known))}`
    throw new CallboardError("invalid-input", message, { field })
  }
}
