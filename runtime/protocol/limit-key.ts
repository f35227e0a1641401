/** The key of a limit: a text that names a tenant. Each tenant has a limit of its own. */

const MAX_TENANT_BYTES = 255
/** What such a key must be, for messages. */
export const TENANT_RULE = `text of 1 to ${MAX_TENANT_BYTES} bytes`

export const isTenant = (value: unknown): value is string => {
  if (typeof value !== "string" || !value.isWellFormed()) return false
  const bytes = Buffer.byteLength(value)
  return bytes >= 1 && bytes <= MAX_TENANT_BYTES
}

/** The value of a field of an input; `undefined` where the input is no object, or lacks the field. */
export const fieldOf = (input: unknown, field: string): unknown =>
  typeof input === "object" && input !== null && Object.hasOwn(input, field) ? Reflect.get(input, field) : undefined
