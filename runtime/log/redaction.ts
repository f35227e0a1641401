/** Arguments and results as text for people: JSON, cut short, and without what a method's `redact` hides. */
import type { JobError } from "../protocol/record.ts"
import { cut, loggable } from "./log-value.ts"

/** Longest text, in characters. */
const MAX_TEXT = 1_024
/** Stands for what is hidden. */
export const HIDDEN = "***"

/** What a method says about its arguments. */
export interface Redaction {
  /** Names for positional arguments. */
  readonly params?: ReadonlyArray<string>
  /** Hides arguments: all of them, or those with these names at any depth. Defaults to none. */
  readonly redact?: boolean | ReadonlyArray<string>
}

/** Whether one of these names is to be hidden. */
export const hides = (redact: Redaction["redact"], ...names: ReadonlyArray<string>): boolean =>
  typeof redact === "object" ? names.some((name) => redact.includes(name)) : redact === true

/** At most 1,024 characters. */
export const cutShort = (text: string): string => cut(text, MAX_TEXT)

/** Any value as text of at most 1,024 characters. */
export const textOf = (value: unknown, { redact }: Redaction): string => {
  if (redact === true) return HIDDEN
  const hide = (key: string) => (hides(redact, key) ? HIDDEN : undefined)
  return cutShort(JSON.stringify(loggable(value, { characters: MAX_TEXT, hide })) ?? "null")
}

/** Positional arguments, without those that go by a hidden name in the handler. */
export const shownArgs = (args: ReadonlyArray<unknown>, { redact, params = [] }: Redaction): ReadonlyArray<unknown> =>
  args.map((value, at) => (hides(redact, params[at] ?? "") ? HIDDEN : value))

/** What an error says, in at most 1,024 characters: a schema that refuses a value may quote it. */
export const messageOf = ({ message, reason, field = "" }: JobError, redact: Redaction["redact"]): string =>
  reason === "invalid-input" && hides(redact, ...field.split("."))
    ? `${field === "" ? "the input" : field} is not valid`
    : cutShort(message)
