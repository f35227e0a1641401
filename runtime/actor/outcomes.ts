/** Errors that a handler can throw (or an Effect fail with) to choose how its attempt ends. */
import { type DurationInput, milliseconds } from "../options/duration.ts"

/**
 * Asks for a retry after `after`, whatever errors the method's `retry` names. There are at most `retry.max` retries, by
 * default 3. The constructor throws `CallboardError` `invalid-input` where `after` is no duration.
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

/** Fails the job at once, without retries, as a dead letter. */
export class Reject extends Error {
  readonly _tag = "Reject"
  override readonly name = "Reject"
}

/**
 * Ends the job as succeeded without a result (Celery's `Ignore`): no callbacks are submitted, and the job is not
 * repeated.
 */
export class Ignore extends Error {
  readonly _tag = "Ignore"
  override readonly name = "Ignore"
}
