/** The log line of a failure: everything that is needed to find and repeat the job, and nothing that is to be hidden. */
import { Result } from "effect"
import type { ErasedMethod } from "../../actor/actor.ts"
import type { Fields } from "../../log/log.ts"
import { cut } from "../../log/log-value.ts"
import { HIDDEN, messageOf, type Redaction, shownArgs, textOf } from "../../log/redaction.ts"
import { decodeBody } from "../../protocol/body.ts"
import { isUndecodable, type Message, type Undecodable } from "../../protocol/message.ts"
import type { JobError, JobRecord } from "../../protocol/record.ts"
import { jobFields } from "../delivery/job-fields.ts"
import { goesOn } from "./failure-handlers.ts"

/** Longest name, in characters. */
const MAX_NAME = 255

export interface FailureLine {
  readonly message: string
  readonly fields: Fields
}

/**
 * The line of a failed attempt. `redact` of the method hides its arguments, or some of them by name; arguments of a
 * method that is not known here are hidden, since nobody can say what of them may be seen.
 */
export const failureLine = (
  record: JobRecord,
  message: Message | Undecodable,
  method: ErasedMethod | undefined,
  maxBody: number,
): FailureLine => {
  const { error, dueAt } = record
  const due = dueAt === undefined ? "now" : `at ${new Date(dueAt).toISOString()}`
  const next = goesOn(record) ? `; it is tried again ${due}` : ""
  return {
    message: `${cut(record.name, MAX_NAME)} failed: ${errorText(error, method?.redact)}${next}`,
    fields: {
      ...jobFields(record, method),
      worker: record.worker,
      reason: error?.reason,
      ...(isUndecodable(message) ? {} : { arguments: argumentsOf(message, method, maxBody) }),
    },
  }
}

const errorText = (error: JobError | undefined, redact: Redaction["redact"]): string =>
  error === undefined ? "Error" : `${error.name}: ${messageOf(error, redact)}`

const argumentsOf = (message: Message, method: ErasedMethod | undefined, maxBody: number): string => {
  if (method === undefined) return "(hidden: the method is not known here)"
  if (method.redact === true) return HIDDEN
  const body = decodeBody(message, { accepts: method.accepts ?? [], maxBytes: maxBody })
  if (Result.isFailure(body)) return `(${body.failure.reason})`
  const { args, kwargs } = body.success
  return textOf(args.length === 0 ? kwargs : { args: shownArgs(args, method), kwargs }, method)
}
