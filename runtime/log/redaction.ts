/**
 * Arguments and results of jobs as text: JSON, cut to 1,024 characters, without the values that a method's `redact`
 * hides.
 */
import type { JobError } from "../protocol/record.ts"
import { cut, loggable } from "./log-value.ts"

/** Longest text, in characters. */
const MAX_TEXT = 1_024
/** Shown in place of a hidden value. */
export const HIDDEN = "***"

/** Options of a method that decide how its arguments are shown. */
export interface Redaction {
  /** Names for positional arguments. */
  readonly params?: ReadonlyArray<string>
  /** Hides arguments: all of them, or those with these names at any depth. Defaults to none. */
  readonly redact?: boolean | ReadonlyArray<string>
}

/** Whether the value with one of these names must be hidden. */
export const hides = (redact: Redaction["redact"], ...names: ReadonlyArray<string>): boolean =>
  typeof redact === "object" ? names.some((name) => redact.includes(name)) : redact === true

/** The text, cut to 1,024 characters. */
export const cutShort = (text: string): string => cut(text, MAX_TEXT)

/** Any value as text of at most 1,024 characters. */
export const textOf = (value: unknown, { redact }: Redaction): string => {
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
