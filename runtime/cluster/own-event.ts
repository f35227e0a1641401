/** Events of the application: which types and which fields are allowed. */
import { CallboardError } from "../errors.ts"
import { MAX_DEPTH } from "../protocol/codec/codec.ts"
import { isPlainObject } from "../protocol/value.ts"

/** Fields of an event of an application: plain JSON. */
export type OwnEventFields = Readonly<Record<string, unknown>>

const MAX_TYPE = 100
/** Largest fields, as JSON, in bytes. */
const MAX_BYTES = 64 * 1024

/** At least two lower case words. */
const TYPE = /^[a-z][a-z0-9]*(?:-[a-z0-9]+)+$/
/** Categories of Callboard's own events. An application must not send such events, because readers trust them. */
const CATEGORIES = ["task", "worker"]
/** Fields that every event has, which the sender sets. */
const COMMON = ["type", "hostname", "timestamp", "utcoffset", "pid", "clock"]
/** Names that are no plain fields: `__type__` marks a typed value on the wire, the others reach into prototypes. */
const UNSAFE = ["__type__", "__proto__", "constructor", "prototype"]

const refuse: (field: string, message: string) => never = (field, message) => {
  throw new CallboardError("invalid-input", `${field}: ${message}`, { field })
}

const checkJson = (value: unknown, field: string, depth: number): void => {
  if (depth > MAX_DEPTH) refuse(field, `must not be nested deeper than ${MAX_DEPTH}`)
  switch (typeof value) {
    case "string":
    case "boolean":
      return
    case "number":
      if (!Number.isFinite(value)) refuse(field, "must be JSON: no NaN and no Infinity")
      return
    case "object":
      if (value === null) return
      if (Array.isArray(value)) {
        for (const [at, inner] of value.entries()) checkJson(inner, `${field}[${at}]`, depth + 1)
        return
      }
      if (!isPlainObject(value)) refuse(field, "must be plain JSON: give text, a number, a list or a map")
      for (const [key, inner] of Object.entries(value)) {
        if (UNSAFE.includes(key)) refuse(`${field}.${key}`, "is no name for a field")
        // An undefined field is left out, as in JSON.
        if (inner !== undefined) checkJson(inner, `${field}.${key}`, depth + 1)
      }
      return
    default:
      refuse(field, `must be plain JSON, not a ${typeof value}`)
  }
}

/**
 * Checks an event of an application. `taken`: names of further fields that Callboard sets. Throws `CallboardError`
 * `invalid-input`, naming the field.
 */
export const checkOwnEvent = (type: unknown, fields: unknown, taken: ReadonlyArray<string> = []): void => {
  if (typeof type !== "string" || type.length > MAX_TYPE || !TYPE.test(type)) {
    refuse("type", `must be category-action in lower case, like order-shipped, of ${MAX_TYPE} characters at most`)
  }
  const [category = ""] = type.split("-")
  if (CATEGORIES.includes(category)) refuse("type", `${category}-… are events of workers: choose another category`)
  if (typeof fields !== "object" || fields === null || !isPlainObject(fields)) {
    refuse("fields", "must be a map of names and JSON values")
  }
  for (const name of [...COMMON, ...taken]) {
    if (Object.hasOwn(fields, name)) refuse(`fields.${name}`, "is set by Callboard: choose another name")
  }
  checkJson(fields, "fields", 0)
  const bytes = new TextEncoder().encode(JSON.stringify(fields)).length
  if (bytes > MAX_BYTES) refuse("fields", `have ${bytes} bytes as JSON, and ${MAX_BYTES} are allowed`)
}
