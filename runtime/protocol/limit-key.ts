/** The key of a limit: text that says whose limit it is. */

const MAX_TENANT_BYTES = 255
/** What such a text has to be, in words. */
export const TENANT_RULE = `text of 1 to ${MAX_TENANT_BYTES} bytes`

export const isTenant = (value: unknown): value is string => {
  if (typeof value !== "string" || !value.isWellFormed()) return false
  const bytes = Buffer.byteLength(value)
  return bytes >= 1 && bytes <= MAX_TENANT_BYTES
}

/** A field of an input, where that is an object that has it. */
export const fieldOf = (input: unknown, field: string): unknown =>
  typeof input === "object" && input !== null && Object.hasOwn(input, field) ? Reflect.get(input, field) : undefined
