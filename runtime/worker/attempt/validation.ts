/** Validates values at the edge of a handler: its input and its result by their schemas. */
import type { StandardSchemaV1 } from "@standard-schema/spec"
import { Effect, Result } from "effect"
import { isPromiseLike } from "../../async/promise-like.ts"
import { jobError } from "../../jobs/outcome/job-error.ts"

/** Why a schema refuses a value, and in which field. The field is empty for the value as a whole. */
export interface InvalidValue {
  readonly field: string
  readonly message: string
}

/** Validates a value with any Standard Schema. The failure names the field. */
export const validate = (
  schema: StandardSchemaV1,
  value: unknown,
): Effect.Effect<Result.Result<unknown, InvalidValue>> => {
  const resultOf = (answer: StandardSchemaV1.Result<unknown>): Result.Result<unknown, InvalidValue> => {
    if (answer.issues === undefined) return Result.succeed(answer.value)
    const issue = answer.issues[0]
    const field = (issue?.path ?? []).map((key) => String(typeof key === "object" ? key.key : key)).join(".")
    const message = issue?.message ?? "is not valid"
    return Result.fail({ field, message: field === "" ? message : `${field}: ${message}` })
  }
  const broken = (thrown: unknown) =>
    Result.fail({ field: "", message: `the schema itself failed: ${jobError(thrown).message}` })
  try {
    const answer = schema["~standard"].validate(value)
    if (!isPromiseLike(answer)) return Effect.succeed(resultOf(answer))
    return Effect.promise(() => Promise.resolve(answer).then(resultOf, broken))
  } catch (thrown) {
    return Effect.succeed(broken(thrown))
  }
}
