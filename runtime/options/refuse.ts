/** How a wrong option is refused: with its name, and what it must be instead, or which known name was meant. */

import { CallboardError } from "../errors.ts"
import { isMap } from "../protocol/guards.ts"
import { suggest } from "../protocol/suggest.ts"

/**
 * Throws the error by which the caller refuses an option. `message` follows the name of the field: `must be more than
 * 0`.
 */
export type Refuse = (field: string, message: string) => never

/** Kinds of values by the words of schemas, and in English. */
const KINDS: ReadonlyMap<string, string> = new Map([
  ["boolean", "true or false"],
  ["string", "text"],
  ["number", "a number"],
  ["integer", "a whole number"],
  ["an integer", "a whole number"],
  ["object", "an object"],
  ["array", "a list"],
])

/** What a value must be, of the message of a schema. */
export const requirementOf = (message = "is not valid"): string => {
  if (message === "Missing key") return "is missing"
  if (!message.startsWith("Expected ")) return message
  if (message === "Expected a value with a length of at least 1") return "must not be empty"
  const kinds = message.slice("Expected ".length).split(" | ")
  return `must be ${kinds.map((kind) => KINDS.get(kind) ?? kind).join(" or ")}`
}

/** Throws `CallboardError` `invalid-input`. */
export const refuseInput: Refuse = (field, message) => {
  throw new CallboardError("invalid-input", `${field}: ${message}`, { field })
}

/** Throws `invalid-input` for a cursor after which the list cannot go on. `field` is what the caller gave it as. */
export const refuseCursor = (field: "after" | "cursor"): never =>
  refuseInput(field, "does not belong to this list; omit it to start over")

/** With more options than this, a refusal that suggests none does not list them. */
const MAX_LISTED = 5

const instead = (field: string, known: ReadonlyArray<string>): string => {
  const above = field.slice(0, field.lastIndexOf(".") + 1)
  const meant = suggest(field.slice(above.length), known)
  if (meant !== undefined) return ` (did you mean ${above}${meant}?)`
  return known.length > MAX_LISTED ? "" : `; it has ${known.map((name) => above + name).join(", ") || "none"}`
}

/**
 * The refusal of an option that `owner`, such as a function, a route or a task, does not have. `known`: the options that
 * may stand in its place. `field`: its path, such as `retry.max`.
 */
export const unknownOption = (field: string, known: ReadonlyArray<string>, owner: string): CallboardError =>
  new CallboardError("unknown-field", `${field} is not an option of ${owner}${instead(field, known)}`, { field })

/** Throws `invalid-input` for options of `owner` that are not an object. `example`: the name of an option. */
export function refuseNonObject(given: unknown, owner: string, example: string): asserts given is object {
  if (isMap(given)) return
  throw new CallboardError("invalid-input", `the options of ${owner} must be an object, such as { ${example}: … }`)
}

/**
 * Throws `unknown-field` for an option that the function `owner` does not have: were a misspelt option ignored, its
 * default would apply. Throws `invalid-input` for options that are not an object.
 */
export function refuseUnknown(
  given: unknown,
  known: Readonly<Record<string, unknown>>,
  owner: string,
): asserts given is object {
  refuseNonObject(given, owner, Object.keys(known)[0] ?? "")
  for (const field in given) {
    if (Object.hasOwn(known, field) || Reflect.get(given, field) === undefined) continue
    throw unknownOption(field, Object.keys(known), owner)
  }
}
