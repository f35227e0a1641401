/** Why an isolated handler failed, or was never called, that its process could not tell. */
import { constants } from "node:os"
import { KnownFailure } from "../../jobs/outcome/known-failure.ts"
import type { JobError } from "../../protocol/record.ts"

const died = (message: string, cause?: JobError): KnownFailure =>
  new KnownFailure({
    name: "ProcessDied",
    message,
    reason: "process-died",
    ...(cause?.traceback === undefined ? {} : { traceback: cause.traceback }),
    ...(cause === undefined ? {} : { cause: { name: cause.name, message: cause.message } }),
  })

/** The process ended while a handler ran; `cause` is what it could still say. */
export const processDied = (
  pid: number | undefined,
  code: number | null,
  signal: NodeJS.Signals | null,
  cause: JobError | undefined,
): KnownFailure => {
  const how = signal === null ? `exit code ${code ?? "unknown"}` : `signal ${constants.signals[signal]} (${signal})`
  return died(`unexpected termination of the handler's process${pid === undefined ? "" : ` ${pid}`}: ${how}`, cause)
}

/** The process could not be started at all. */
export const processNotStarted = (why: string): KnownFailure =>
  died(`the handler's process could not be started: ${why}`)
