/** Options that do not exist: one that was mistyped would be ignored, and its default would hold instead. */
import { CallboardError } from "../errors.ts"
import { didYouMean } from "./suggest.ts"

/** Refuses an option that is not among the known ones, of the function `owner`. Fails with `invalid-input`, naming it. */
export const refuseUnknown = (given: object, known: Readonly<Record<string, true>>, owner: string): void => {
  for (const [field, value] of Object.entries(given)) {
    if (value === undefined || Object.hasOwn(known, field)) continue
    const message = `${field} is not an option of ${owner}${didYouMean(field, Object.keys(known))}`
    throw new CallboardError("invalid-input", message, { field })
  }
}
