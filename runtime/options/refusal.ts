/** Refusals as results, and in the filters of schemas. */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { CallboardError } from "../errors.ts"

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

/**
 * The filter of a schema that refuses what a check refuses. The fields that the check names begin with the name of the
 * option, such as `retry.interval[0]`.
 */
export const filterOf = <A>(check: (value: A) => unknown) =>
  Schema.makeFilter((value: A) => {
    const checked = resultOf(() => check(value))
    if (Result.isSuccess(checked)) return true
    const { message, details } = checked.failure
    const { field = "" } = details
    const [, ...path] = field.split(/[.[\]]+/).filter((key) => key !== "")
    return {
      path: path.map((key) => (/^\d+$/.test(key) ? Number(key) : key)),
      issue: message.replace(`${field}: `, ""),
    }
  })
