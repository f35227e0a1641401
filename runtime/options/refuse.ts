/** How a wrong option is refused: with its name, and what it must be instead, or which known name was meant. */

import * as Result from "effect/Result"
import { CallboardError } from "../errors.ts"
import { isMap } from "../protocol/guards.ts"
import { didYouMean } from "../suggest.ts"

/**
 * Throws the error by which the caller refuses an option. `message` follows the name of the field: `must be more than
 * 0`.
 */
export type Refuse = (field: string, message: string) => never

/** What a value must be, of the message of a schema. */
export const requirementOf = (message = "is not valid"): string =>
  message
    .replace(/^Missing key$/, "is missing")
    .replace(/^Expected boolean$/, "must be true or false")
    .replace(/^Expected a value with a length of at least 1$/, "must not be empty")
    .replace(/^Expected /, "must be ")
    .replaceAll(" | ", " or ")

/** Throws `CallboardError` `invalid-input`. */
export const refuseInput: Refuse = (field, message) => {
  throw new CallboardError("invalid-input", `${field}: ${message}`, { field })
}

/** Throws `invalid-input` for a cursor after which the list cannot go on. `field` is what the caller gave it as. */
export const refuseCursor = (field: "after" | "cursor"): never =>
  refuseInput(field, "does not belong to this list; omit it to start over")

/**
 * The value that the function returns, or the `CallboardError` that it threw, as a `Result`. Rethrows every other
 * error.
 */
export const resultOf = <A>(checked: () => A): Result.Result<A, CallboardError> => {
  try {
    return Result.succeed(checked())
  } catch (thrown) {
    return failureOf(thrown)
  }
}

/** The `CallboardError` that was thrown, as a `Result`. Rethrows every other error. */
export const failureOf = (thrown: unknown): Result.Result<never, CallboardError> => {
  if (thrown instanceof CallboardError) return Result.fail(thrown)
  throw thrown
}

/** The refusal of an option that `owner`, a function or a route, does not have. */
export const unknownOption = (field: string, known: ReadonlyArray<string>, owner: string): CallboardError =>
  new CallboardError("unknown-field", `${field} is not an option of ${owner}${didYouMean(field, known)}`, { field })

/**
 * Throws `unknown-field` for an option that the function `owner` does not have: were a misspelt option ignored, its
 * default would hold. Throws `invalid-input` for options that are no object.
 */
export function refuseUnknown(
  given: unknown,
  known: Readonly<Record<string, unknown>>,
  owner: string,
): asserts given is object {
  if (!isMap(given))
    throw new CallboardError("invalid-input", `the options of ${owner} are an object: ${Object.keys(known).join(", ")}`)
  for (const field in given) {
    if (Object.hasOwn(known, field) || Reflect.get(given, field) === undefined) continue
    throw unknownOption(field, Object.keys(known), owner)
  }
}
