/** Values that are kept as plain JSON with a job. */
import { CallboardError } from "../errors.ts"
import { plainJson } from "../protocol/codec/json-writer.ts"

/** The JSON of a value. Fails with `invalid-input`, naming the field and the place in it. */
export const plainValue = (value: unknown, field: string, id: string): string => {
  const text = plainJson(value, field)
  if (!("json" in text)) throw new CallboardError("invalid-input", text.message, { field, id })
  return text.json
}
