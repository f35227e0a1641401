/** The soft time limit, as a handler hears of it, and as the record says it when that is what ended the attempt. */
import type { JobError } from "../../protocol/record.ts"

/** What the handler's signal fires with. */
export const softLimit = (seconds: number): DOMException =>
  new DOMException(`it ran longer than its soft limit of ${seconds} s`, "TimeoutError")

/** The error of an attempt that ended by what its signal fired with, thrown as it was or as the cause of an error. */
export const softLimitError = (thrown: unknown, reason: DOMException | undefined): JobError | undefined =>
  reason !== undefined && (thrown === reason || causeOf(thrown) === reason)
    ? { name: "SoftTimeLimitExceeded", message: reason.message, reason: "timeout" }
    : undefined

const causeOf = (thrown: unknown): unknown => {
  try {
    return typeof thrown === "object" && thrown !== null && "cause" in thrown ? thrown.cause : undefined
  } catch {
    // A getter that throws.
    return undefined
  }
}
