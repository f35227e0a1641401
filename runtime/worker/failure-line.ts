/** The log line of a failure: everything that is needed to find and repeat the job, and nothing that is to be hidden. */
import { Result } from "effect"
import type { ErasedMethod, MethodOptions } from "../actor.ts"
import type { Fields } from "../log.ts"
import { cut, loggable } from "../log-value.ts"
import { decodeBody } from "../protocol/body.ts"
import { isUndecodable, type Message, type Undecodable } from "../protocol/message.ts"
import type { JobError, JobRecord } from "../protocol/record.ts"
import { goesOn } from "./failure-handlers.ts"
import { jobFields } from "./job-fields.ts"

/** Longest name, message and rendering of the arguments, in characters. */
const MAX_NAME = 255
const MAX_MESSAGE = 1_024
const MAX_ARGUMENTS = 1_024
const HIDDEN = "***"

type Redact = MethodOptions["redact"]

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
      ...jobFields(record, method?.name ?? record.meth),
      worker: record.worker,
      reason: error?.reason,
      ...(isUndecodable(message) ? {} : { arguments: argumentsOf(message, method, maxBody) }),
    },
  }
}

/** A schema that refuses a value may quote it. */
const errorText = (error: JobError | undefined, redact: Redact): string => {
  if (error === undefined) return "Error"
  const { name, message, reason, field = "" } = error
  const quotes = reason === "invalid-input" && hides(redact, ...field.split("."))
  return `${name}: ${quotes ? `${field === "" ? "the input" : field} is not valid` : cut(message, MAX_MESSAGE)}`
}

const hides = (redact: Redact, ...names: ReadonlyArray<string>): boolean =>
  typeof redact === "object" ? names.some((name) => redact.includes(name)) : redact === true

const argumentsOf = (message: Message, method: ErasedMethod | undefined, maxBody: number): string => {
  if (method === undefined) return "(hidden: the method is not known here)"
  const { redact, params = [] } = method
  if (redact === true) return HIDDEN
  const body = decodeBody(message, { accepts: method.accepts ?? [], maxBytes: maxBody })
  if (Result.isFailure(body)) return `(${body.failure.reason})`
  const { kwargs } = body.success
  const args = body.success.args.map((value, at) => (hides(redact, params[at] ?? "") ? HIDDEN : value))
  const shown = loggable(args.length === 0 ? kwargs : { args, kwargs }, {
    characters: MAX_ARGUMENTS,
    hide: (key) => (hides(redact, key) ? HIDDEN : undefined),
  })
  return cut(JSON.stringify(shown), MAX_ARGUMENTS)
}
