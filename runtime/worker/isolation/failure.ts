/** What came of an isolated handler that failed, as its process told it: the error is complete, nothing is read off it. */
import { constants } from "node:os"
import type { JobError } from "../../protocol/record.ts"

export class IsolatedFailure {
  readonly error: JobError
  /** Not tried again, whatever the method's policy says: input or result is wrong, and would be so again. */
  readonly final: boolean

  constructor(error: JobError, final = false) {
    this.error = error
    this.final = final
  }
}

const died = (message: string, cause?: JobError): IsolatedFailure =>
  new IsolatedFailure({
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
): IsolatedFailure => {
  const how = signal === null ? `exit code ${code ?? "unknown"}` : `signal ${constants.signals[signal]} (${signal})`
  return died(`unexpected termination of the handler's process${pid === undefined ? "" : ` ${pid}`}: ${how}`, cause)
}

/** The process could not be started at all. */
export const processNotStarted = (why: string): IsolatedFailure =>
  died(`the handler's process could not be started: ${why}`)
