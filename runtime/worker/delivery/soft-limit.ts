/**
 * The soft time limit: the reason that the handler's signal gets, and the error of an attempt that ended because of it.
 */
import type { JobError } from "../../protocol/record.ts"

/** The abort reason of the handler's signal. */
export const softLimit = (seconds: number): DOMException =>
  new DOMException(`it ran longer than its soft limit of ${seconds} s`, "TimeoutError")

/** The error of an attempt that threw the abort reason of its signal, or an error whose cause it is. */
export const softLimitError = (thrown: unknown, reason: DOMException | undefined): JobError | undefined =>
  reason !== undefined && (thrown === reason || causeOf(thrown) === reason)
    ? { name: "SoftTimeLimitExceeded", message: reason.message, reason: "timeout" }
    : undefined

const causeOf = (thrown: unknown): unknown => {
  try {
    return typeof thrown === "object" && thrown !== null && "cause" in thrown ? thrown.cause : undefined
  } catch {
    // The property `cause` is a getter that throws.
    return undefined
  }
}
