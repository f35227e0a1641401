/** Turns a process's message about the end of a run into the exit that an inline handler would have had. */

import { constants } from "node:os"
import * as Exit from "effect/Exit"
import { Ignore, Reject, Retry } from "../../actor/job.ts"
import { KnownFailure } from "../../jobs/outcome/job-error.ts"
import type { JobError } from "../../protocol/record.ts"
import type { ProcessMessage } from "./messages.ts"

export const exitOf = (
  received: Extract<ProcessMessage, { readonly kind: "succeeded" | "failed" }>,
): Exit.Exit<unknown, unknown> => {
  if (received.kind === "succeeded") {
    // The value is JSON text that the process made itself, so it can be parsed.
    return Exit.succeed(received.value === undefined ? undefined : JSON.parse(received.value))
  }
  const { error, after } = received
  switch (received.how) {
    case "ignore":
      return Exit.fail(new Ignore(error.message))
    case "reject":
      return Exit.fail(rejectOf(error))
    case "retry":
      return Exit.fail(new Retry({ cause: new KnownFailure(error), ...(after === undefined ? {} : { after }) }))
    case "final":
      return Exit.fail(new KnownFailure(error, true))
    case "failed":
      return Exit.fail(new KnownFailure(error))
  }
}

const rejectOf = (error: JobError): Reject => {
  const reject = new Reject(error.message, error.cause === undefined ? {} : { cause: error.cause })
  // The stack shows where the handler threw the error.
  if (error.traceback !== undefined) reject.stack = error.traceback
  return reject
}

const died = (message: string, cause?: JobError): KnownFailure =>
  new KnownFailure({
    name: "ProcessDied",
    message,
    reason: "process-died",
    ...(cause?.traceback === undefined ? {} : { traceback: cause.traceback }),
    ...(cause === undefined ? {} : { cause: { name: cause.name, message: cause.message } }),
  })

/** The failure of a run whose process ended. `cause`: the error that the process reported last. */
export const processDied = (
  pid: number | undefined,
  code: number | null,
  signal: NodeJS.Signals | null,
  cause: JobError | undefined,
): KnownFailure => {
  const how = signal === null ? `exit code ${code ?? "unknown"}` : `signal ${constants.signals[signal]} (${signal})`
  return died(`unexpected termination of the handler's process${pid === undefined ? "" : ` ${pid}`}: ${how}`, cause)
}

/** The failure of a run whose process could not be started. */
export const processNotStarted = (why: string): KnownFailure =>
  died(`the handler's process could not be started: ${why}`)
