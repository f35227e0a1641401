/**
 * Reports failed attempts: a log line with everything that is needed to find and repeat the job, without what is to be
 * hidden, and a call of the application's failure handlers. At the level `debug` it also says of each attempt that it starts
 * and that it has succeeded.
 */
import * as Result from "effect/Result"
import type { ErasedMethod } from "../../actor/actor.ts"
import { type JobView, jobView } from "../../jobs/view.ts"
import type { Fields, Log } from "../../log/log.ts"
import { HIDDEN, hideAll, messageOf, type Redaction, redactedText, shownArgs } from "../../log/redaction.ts"
import { decodeBody } from "../../protocol/body.ts"
import { parseTask } from "../../protocol/headers.ts"
import { isUndecodable, type Message, type Undecodable } from "../../protocol/message.ts"
import type { JobError, JobRecord } from "../../protocol/record.ts"
import { cut } from "../../protocol/text.ts"
import type { Settlement } from "../../transport/job-store/transport.ts"
import { type ActiveDelivery, type HandlerRun, jobFields } from "../active-delivery.ts"
import type { WorkerObserver } from "./observer.ts"

/** A failed attempt, as it was stored: the job, its error, and whether it is tried again. */
export interface Failure {
  readonly job: JobView
  readonly error: JobError
  /** Whether another attempt follows. */
  readonly willRetry: boolean
}

/**
 * Called after a failed attempt was stored, and awaited, one after the other, as RQ's exception handlers are. Returning
 * `false` skips the handlers after it. An error that it throws is logged and changes nothing.
 */
export type FailureHandler = (failure: Failure) => unknown

/** Whether another attempt follows: the record then names its successor. */
export const hasSuccessor = (record: JobRecord): boolean => record.successor !== undefined

const runFailureHandlers = async (
  handlers: ReadonlyArray<FailureHandler>,
  record: JobRecord,
  log: Log,
): Promise<void> => {
  const { error } = record
  if (error === undefined || handlers.length === 0) return
  const failure: Failure = { job: jobView(record), error, willRetry: hasSuccessor(record) }
  for (const handler of handlers) {
    try {
      if ((await handler(failure)) === false) return
    } catch (cause) {
      log.error("a failure handler failed", {
        job: record.id,
        cause: cause instanceof Error ? cause.message : String(cause),
      })
    }
  }
}

export class FailureReporter implements WorkerObserver {
  readonly #log: Log
  readonly #handlers: ReadonlyArray<FailureHandler>
  readonly #maxBody: number
  /** Whether the level is `debug`. */
  readonly #saysAll: boolean

  /** `maxBody`: largest body that is decoded for its arguments, in bytes. */
  constructor(log: Log, handlers: ReadonlyArray<FailureHandler>, maxBody: number) {
    this.#log = log
    this.#maxBody = maxBody
    this.#handlers = handlers
    this.#saysAll = log.enabled("debug")
  }

  started(_active: ActiveDelivery, { record, method, posting }: HandlerRun): void {
    if (!this.#saysAll) return
    this.#log.debug(`${cut(record.name, MAX_NAME)} starts`, {
      ...jobFields(record, method),
      arguments: argumentsOf(posting.message, method, this.#maxBody),
    })
  }

  settled(active: ActiveDelivery, { record }: Settlement): void {
    if (record?.state === "succeeded") {
      if (this.#saysAll) this.#log.debug(successLine(record), jobFields(record, active.method))
      return
    }
    if (record?.error === undefined) return
    this.#report(record, active.run?.posting.message ?? active.delivery.message, active.method)
  }

  /** Reports a job that was lost with another worker. */
  lost(record: JobRecord): void {
    // The method may not be known here, so its redaction rules are not known either and the arguments are not shown.
    this.#report(record, record.message ?? { undecodable: "not kept", raw: new Uint8Array() }, undefined)
  }

  #report(record: JobRecord, message: Message | Undecodable, method: ErasedMethod | undefined): void {
    if (this.#log.enabled("warn")) {
      const line = failureLine(record, message, method, this.#maxBody)
      this.#log.warn(line.message, line.fields)
    }
    void runFailureHandlers(this.#handlers, record, this.#log)
  }
}

/** Longest task name in a line, in characters. */
const MAX_NAME = 255

const successLine = ({ name, worker, startedAt = 0, endedAt = 0, keepMs = -1 }: JobRecord): string => {
  const kept = keepMs < 0 ? "indefinitely" : `for ${keepMs / 1_000} seconds`
  const took = `${(endedAt - startedAt) / 1_000} s on ${worker}`
  return `${cut(name, MAX_NAME)} succeeded in ${took}; its result is kept ${kept}`
}

interface FailureLine {
  readonly message: string
  readonly fields: Fields
}

/**
 * Makes the log line of a failed attempt. The method's `redact` hides all arguments, or some by name. The arguments of
 * an unknown method are hidden, because its redaction rules are unknown.
 */
const failureLine = (
  record: JobRecord,
  message: Message | Undecodable,
  method: ErasedMethod | undefined,
  maxBody: number,
): FailureLine => {
  const { error, dueAt } = record
  const due = dueAt === undefined ? "now" : `at ${new Date(dueAt).toISOString()}`
  const next = hasSuccessor(record) ? `; the next attempt starts ${due}` : ""
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
  if (method === undefined) return "(hidden: this worker does not know the method)"
  const redact = hideAll(method.redact, ownRedact(message))
  if (redact === true) return HIDDEN
  const body = decodeBody(message, { accepts: method.accepts ?? [], maxBytes: maxBody })
  if (Result.isFailure(body)) return `(${body.failure.reason})`
  const { args, kwargs } = body.success
  const rules = { ...(method.params && { params: method.params }), ...(redact && { redact }) }
  return redactedText(args.length === 0 ? kwargs : { args: shownArgs(args, rules), kwargs }, rules)
}

/** What the task itself hides: its submitter knew the method, or the job that it follows hides it. */
const ownRedact = (message: Message): Redaction["redact"] => {
  const task = parseTask(message)
  return Result.isSuccess(task) ? task.success.own.redact : undefined
}
