/** What callers give to the methods of boards, checked without a schema. */
import { CallboardError } from "../errors.ts"
import { refuseInput, refuseNonObject, refuseUnknown } from "../options/refuse.ts"
import { plainJson } from "../protocol/codec/json-writer.ts"
import { isMap } from "../protocol/guards.ts"
import type { PostOptions } from "./requests.ts"

const HELD = { claim: true } as const
/** The options of each call. */
const OPTIONS = {
  claim: { expiry: true },
  take: { expiry: true, wait: true, signal: true },
  consume: HELD,
  abandon: HELD,
  trash: HELD,
  extendExpiry: { claim: true, owner: true },
  iterate: { onlyUnclaimed: true, fresh: true },
  list: { onlyUnclaimed: true, limit: true, after: true },
  trashed: { limit: true, after: true },
  wait: { timeout: true, delay: true, multiplier: true, maxDelay: true, signal: true },
} as const

/** Fails with `unknown-field` for an option that a call does not have. */
export const checkCallOptions = (call: keyof typeof OPTIONS, options: object): void =>
  refuseUnknown(options, OPTIONS[call], `${call}()`)

/** Fails with `invalid-input` for options that are not an object. A list, for example, would be read as no options. */
export const checkPostOptions = (options: unknown): void => refuseNonObject(options, "post()", "details")

/**
 * Details, or what else `field` is, as they are stored, and the length of their text. Fails with `invalid-input` for what
 * JSON cannot hold.
 */
export const detailsOf = (
  details: PostOptions["details"],
  field = "details",
): { readonly details: Readonly<Record<string, unknown>>; readonly length: number } => {
  if (details === undefined) return { details: {}, length: 2 }
  const text = plainJson(details, field)
  if (!("json" in text)) throw new CallboardError("invalid-input", text.message, { field })
  const written: unknown = JSON.parse(text.json)
  if (!isMap(written)) return refuseInput(field, "must be an object whose JSON is an object too")
  return { details: written, length: text.json.length }
}
