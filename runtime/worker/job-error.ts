/** Turns whatever a handler throws, or an Effect fails with, into what the record keeps. */
import type { JobError } from "../protocol/record.ts"

/** Longest traceback that is kept, in characters: the record must fit the transport. */
const MAX_TRACEBACK = 16_384
const MAX_MESSAGE = 4_096

const cut = (text: string, max: number): string => (text.length <= max ? text : `${text.slice(0, max - 1)}…`)

const text = (value: unknown): string => {
  if (typeof value === "string") return value
  try {
    return JSON.stringify(value) ?? String(value)
  } catch {
    return Object.prototype.toString.call(value)
  }
}

const property = (value: object, key: string): unknown => {
  // A getter may throw; an error must not hide another.
  try {
    return Reflect.get(value, key)
  } catch {
    return undefined
  }
}

const nameOf = (thrown: object): string => {
  const tag = property(thrown, "_tag")
  if (typeof tag === "string" && tag !== "") return tag
  const name = property(thrown, "name")
  if (typeof name === "string" && name !== "" && name !== "Error") return name
  const constructor = property(thrown, "constructor")
  return typeof constructor === "function" && constructor.name !== "Object" && constructor.name !== ""
    ? constructor.name
    : "Error"
}

/** Name is the error's tag, else its name, else its class. Never throws, whatever was thrown. */
export const jobError = (thrown: unknown, reason = "handler"): JobError => {
  if (typeof thrown !== "object" || thrown === null)
    return { name: "Error", message: cut(text(thrown), MAX_MESSAGE), reason }
  const message = property(thrown, "message")
  const stack = property(thrown, "stack")
  const cause = property(thrown, "cause")
  return {
    name: nameOf(thrown),
    message: cut(typeof message === "string" ? message : text(thrown), MAX_MESSAGE),
    reason,
    ...(typeof stack === "string" ? { traceback: cut(stack, MAX_TRACEBACK) } : {}),
    ...(cause === undefined || cause === null
      ? {}
      : typeof cause === "object"
        ? { cause: { name: nameOf(cause), message: cut(text(property(cause, "message")), MAX_MESSAGE) } }
        : { cause: { name: "Error", message: cut(text(cause), MAX_MESSAGE) } }),
  }
}
