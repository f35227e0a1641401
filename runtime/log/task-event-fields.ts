/** The fields that describe a task in events: name and times as text, and the arguments unless they are hidden. */
import { Result } from "effect"
import { decodeBody } from "../protocol/body.ts"
import type { Task } from "../protocol/headers.ts"
import type { Message } from "../protocol/message.ts"
import { formatTime } from "../protocol/time.ts"
import { cutShort, HIDDEN, type Redaction, shownArgs, textOf } from "./redaction.ts"

/** Largest body, in bytes after decompression, that is decoded to show at most 1,024 characters of it. */
const MAX_BODY = 64 * 1024

interface Arguments {
  readonly args: string
  readonly kwargs: string
}

/** Arguments as text. Those of a method that is not known here are hidden, because the method might hide them. */
const argumentsOf = (task: Task, message: Message, redaction: Redaction | undefined): Arguments => {
  const { redact = false } = redaction ?? {}
  if (redaction === undefined || redact === true) return { args: HIDDEN, kwargs: HIDDEN }
  const { argsrepr, kwargsrepr } = task
  if (argsrepr !== null || kwargsrepr !== null) {
    // The sender wrote this text. No names can be found in it, so where some names are hidden all of it is hidden.
    const shown = (text: string | null) => (redact === false && text !== null ? cutShort(text) : HIDDEN)
    return { args: shown(argsrepr), kwargs: shown(kwargsrepr) }
  }
  const body = decodeBody(message, { maxBytes: MAX_BODY })
  if (Result.isFailure(body)) return { args: `(${body.failure.reason})`, kwargs: `(${body.failure.reason})` }
  const { args, kwargs } = body.success
  return { args: textOf(shownArgs(args, redaction), redaction), kwargs: textOf(kwargs, redaction) }
}

/** The fields that `task-sent` and `task-received` share. */
export const taskEventFields = (task: Task, message: Message, redaction: Redaction | undefined) => ({
  uuid: task.id,
  name: task.shadow ?? (task.meth === null ? task.task : `${task.task}.${task.meth}`),
  ...argumentsOf(task, message, redaction),
  root_id: task.rootId,
  parent_id: task.parentId,
  retries: task.retries,
  eta: task.eta === null ? null : formatTime(task.eta),
  expires: task.expires === null ? null : formatTime(task.expires),
})
