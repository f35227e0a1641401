/**
 * What log lines and events show of a job: arguments and results as text (JSON, cut to 1,024 characters), without the
 * values that a method's `redact` hides.
 */

import * as Result from "effect/Result"
import { decodeBody } from "../protocol/body.ts"
import { compact } from "../protocol/compact.ts"
import type { Task } from "../protocol/headers.ts"
import type { Message } from "../protocol/message.ts"
import type { JobError } from "../protocol/record.ts"
import { cut } from "../protocol/text.ts"
import { formatTime } from "../protocol/time.ts"
import { loggable } from "./log-value.ts"

/** Longest text, in characters. */
const MAX_TEXT = 1_024
/** Shown in place of a hidden value. */
export const HIDDEN = "***"

/** Options of a method that decide how its arguments are shown. */
export interface Redaction {
  /** Names for positional arguments. */
  readonly params?: ReadonlyArray<string> | undefined
  /** Hides arguments: all of them, or those with these names at any depth. Defaults to none. */
  readonly redact?: boolean | ReadonlyArray<string> | undefined
}

/** Whether the value with one of these names must be hidden. */
export const hides = (redact: Redaction["redact"], ...names: ReadonlyArray<string>): boolean =>
  typeof redact === "object" ? names.some((name) => redact.includes(name)) : redact === true

/**
 * Whether the values of a limit's key must be hidden: where the key is a field that is, and where it is a function (`field` is
 * `undefined`), which may read what is hidden.
 */
export const hidesKey = (redact: Redaction["redact"], field: string | undefined): boolean =>
  field === undefined ? hideAll(redact) !== undefined : hides(redact, field)

/** A rule that hides all that any of these rules hides. */
export const hideAll = (...all: ReadonlyArray<Redaction["redact"]>): true | ReadonlyArray<string> | undefined => {
  if (all.includes(true)) return true
  const names = all.flatMap((each) => (typeof each === "object" ? each : []))
  return names.length === 0 ? undefined : [...new Set(names)]
}

/** The text, cut to 1,024 characters. */
export const cutShort = (text: string): string => cut(text, MAX_TEXT)

/** Any value as text of at most 1,024 characters. */
export const redactedText = (value: unknown, { redact }: Redaction): string => {
  if (redact === true) return HIDDEN
  const hide = (key: string) => (hides(redact, key) ? HIDDEN : undefined)
  return cutShort(JSON.stringify(loggable(value, { characters: MAX_TEXT, hide })) ?? "null")
}

/** Positional arguments, in which those are hidden whose name (by `params`) is to be hidden. */
export const shownArgs = (args: ReadonlyArray<unknown>, { redact, params = [] }: Redaction): ReadonlyArray<unknown> =>
  args.map((value, at) => (hides(redact, params[at] ?? "") ? HIDDEN : value))

/**
 * The message of an error, cut to 1,024 characters. Where a hidden field was refused it is replaced: schemas quote the
 * value that they refuse.
 */
export const messageOf = ({ message, reason, field = "" }: JobError, redact: Redaction["redact"]): string =>
  reason === "invalid-input" && hides(redact, ...field.split("."))
    ? `${field === "" ? "the input" : field} is not valid`
    : cutShort(message)

/** Largest body, in bytes after decompression, that is decoded to show at most 1,024 characters of it. */
const MAX_BODY = 64 * 1024

interface Arguments {
  readonly args: string
  readonly kwargs: string
}

/** Arguments as text. Those of a method that is not known here are hidden, because the method might hide them. */
const argumentsOf = (task: Task, message: Message, redaction: Redaction | undefined): Arguments => {
  const redact = hideAll(redaction?.redact, task.own.redact)
  if (redaction === undefined || redact === true) return { args: HIDDEN, kwargs: HIDDEN }
  const { argsrepr, kwargsrepr } = task
  if (argsrepr !== null || kwargsrepr !== null) {
    // The sender wrote this text. No names can be found in it, so where some names are hidden all of it is hidden.
    const shown = (text: string | null) => (redact === undefined && text !== null ? cutShort(text) : HIDDEN)
    return { args: shown(argsrepr), kwargs: shown(kwargsrepr) }
  }
  const body = decodeBody(message, { maxBytes: MAX_BODY })
  if (Result.isFailure(body)) return { args: `(${body.failure.reason})`, kwargs: `(${body.failure.reason})` }
  const { args, kwargs } = body.success
  const rules = { ...redaction, ...compact({ redact }) }
  return { args: redactedText(shownArgs(args, rules), rules), kwargs: redactedText(kwargs, rules) }
}

/** The fields that the events `task-sent` and `task-received` share: name and times as text, and the arguments. */
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
