/** What a handler can throw (or an Effect fail with) to say how its attempt ends. */
import { type DurationInput, milliseconds } from "../options/duration.ts"

/**
 * Asks for another attempt, whatever the method's `retry` says about errors; at most `retry.max` of them, if set.
 * Making one fails with `CallboardError` `invalid-input` where `after` is no duration, which is what the attempt fails with then.
 */
export class Retry extends Error {
  readonly _tag = "Retry"
  override readonly name = "Retry"
  readonly after: DurationInput | undefined
  constructor(options: { readonly after?: DurationInput; readonly cause?: unknown } = {}) {
    super("the handler asked for a retry", "cause" in options ? { cause: options.cause } : {})
    if (options.after !== undefined) milliseconds("after", options.after)
    this.after = options.after
  }
}

/** Gives the job up at once: failed, as a dead letter, without retries. */
export class Reject extends Error {
  readonly _tag = "Reject"
  override readonly name = "Reject"
}

/** Ends the job as succeeded without a result (Celery's `Ignore`): nothing follows from it, and it is not repeated. */
export class Ignore extends Error {
  readonly _tag = "Ignore"
  override readonly name = "Ignore"
}
