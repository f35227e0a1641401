/** Refusing a submission from deep within its checks. */
import { Result } from "effect"
import { CallboardError } from "../../errors.ts"
import { parseDuration } from "../../protocol/time.ts"

/** Carries a refusal out of nested checks to {@link refusals}, which returns it as a value. */
class Refusal {
  readonly error: CallboardError
  constructor(error: CallboardError) {
    this.error = error
  }
}

/** Fails with `invalid-input`. */
export const refuse = (field: string, message: string): never => {
  throw new Refusal(new CallboardError("invalid-input", `${field}: ${message}`, { field }))
}

/** What a duration comes to; one that is none is refused. */
export const milliseconds = (field: string, value: number | string): number => {
  const parsed = parseDuration(value)
  return Result.isSuccess(parsed) ? parsed.success : refuse(field, parsed.failure.message)
}

/** What `checked` makes, or why it refused to. */
export const refusals = <A>(checked: () => A): Result.Result<A, CallboardError> => {
  try {
    return Result.succeed(checked())
  } catch (thrown) {
    if (thrown instanceof Refusal) return Result.fail(thrown.error)
    throw thrown
  }
}
