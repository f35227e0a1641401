/** Validates values at the edge of a handler: its input and its result by their schemas. */
import type { StandardSchemaV1 } from "@standard-schema/spec"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { isPromiseLike } from "../../async/promise-like.ts"
import { jobError } from "../../jobs/outcome/job-error.ts"
import { firstIssue, type InvalidValue } from "../../options/json-schema.ts"

/** Validates a value with any Standard Schema. The failure names the field. */
export const validate = (
  schema: StandardSchemaV1,
  value: unknown,
): Effect.Effect<Result.Result<unknown, InvalidValue>> => {
  const resultOf = (answer: StandardSchemaV1.Result<unknown>): Result.Result<unknown, InvalidValue> =>
    answer.issues === undefined ? Result.succeed(answer.value) : Result.fail(firstIssue(answer.issues))
  const broken = (thrown: unknown) =>
    Result.fail({ field: "", message: `the schema itself failed: ${jobError(thrown).message}` })
  try {
    const answer = schema["~standard"].validate(value)
    if (!isPromiseLike(answer)) return Effect.succeed(resultOf(answer))
    return Effect.promise(() => Promise.resolve(answer).then(resultOf).catch(broken))
  } catch (thrown) {
    return Effect.succeed(broken(thrown))
  }
}
