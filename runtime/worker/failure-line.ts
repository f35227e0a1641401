/** The log line of a failure: everything that is needed to find and repeat the job. */
import { Result } from "effect"
import type { MethodOptions } from "../actor.ts"
import type { Fields } from "../log.ts"
import { decodeBody } from "../protocol/body.ts"
import type { Message } from "../protocol/message.ts"
import type { JobRecord } from "../protocol/record.ts"

/** Longest rendering of the arguments, in characters. */
const MAX_ARGUMENTS = 1_024
const HIDDEN = "***"

/** Fields of the line; `redact` of the method hides its arguments, or some of them by name. */
export const failureFields = (record: JobRecord, message: Message, redact: MethodOptions["redact"]): Fields => ({
  job: record.id,
  task: record.task,
  ...(record.meth === null ? {} : { method: record.meth }),
  queue: record.queue,
  attempt: record.attempt,
  worker: record.worker,
  reason: record.error?.reason,
  arguments: argumentsOf(message, redact),
})

const argumentsOf = (message: Message, redact: MethodOptions["redact"]): string => {
  if (redact === true) return HIDDEN
  const body = decodeBody(message)
  if (Result.isFailure(body)) return `(${body.failure.reason})`
  const hidden = new Set(redact === false ? [] : redact)
  const { args, kwargs } = body.success
  try {
    const replace = (key: string, value: unknown) => (hidden.has(key) ? HIDDEN : value)
    const text = JSON.stringify(args.length === 0 ? kwargs : { args, kwargs }, replace)
    return text.length > MAX_ARGUMENTS ? `${text.slice(0, MAX_ARGUMENTS)}…` : text
  } catch {
    return "(not JSON)"
  }
}
