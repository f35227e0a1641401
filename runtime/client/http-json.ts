/** JSON of the client over HTTP: task bodies as every client writes them, and results as their handlers returned them. */
import { CallboardError } from "../errors.ts"
import { MAX_DEPTH, writeFailure } from "../protocol/codec/codec.ts"
import { AS_GIVEN, numberText, write } from "../protocol/codec/json-writer.ts"
import { decodeBase64, Exact, ExactDate } from "../protocol/exact.ts"
import { isObject } from "../protocol/guards.ts"
import { encoder } from "../protocol/text.ts"

/** The service checks what is given as a typed value. */
const FORM = { number: numberText, bigint: String, asTyped: () => AS_GIVEN }

/** A body as JSON. Fails with `invalid-input`. */
export const bodyText = (body: unknown): string => {
  try {
    return write(body, MAX_DEPTH, "", FORM)
  } catch (cause) {
    throw new CallboardError("invalid-input", `the task ${writeFailure(cause, "JSON").message}`)
  }
}

const ZONE = /(?:Z|[+-]\d\d:\d\d)(:\d\d(?:\.\d+)?)?$/i

/** A date of text that a service has checked. */
const dateOf = (text: string): ExactDate | undefined => {
  const [zone = "", seconds = ""] = ZONE.exec(text) ?? []
  const ms = Date.parse(zone === "" ? `${text}Z` : text.slice(0, text.length - seconds.length))
  if (Number.isNaN(ms)) return undefined
  const east = Number(seconds.slice(1)) * (zone.startsWith("-") ? -1_000 : 1_000)
  return new ExactDate(Math.floor(ms - east), text)
}

/** The value of a typed value; `undefined` for one that is not known. */
const typedValue = (type: unknown, value: unknown): unknown => {
  if (type === "uuid" && isObject(value) && "hex" in value)
    return new Exact(type, String(value.hex).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-"))
  if (typeof value !== "string") return undefined
  switch (type) {
    case "datetime":
      return dateOf(value)
    case "date":
    case "time":
    case "decimal":
      return new Exact(type, value)
    case "bytes":
      return encoder.encode(value)
    case "base64":
      return decodeBase64(value)
    case "int":
      return BigInt(value)
    case "float":
      return Number(value)
  }
  return undefined
}

/** A result as its handler returned it. */
export const resultOf = (form: unknown): unknown => {
  if (!isObject(form)) return form
  if (Array.isArray(form)) return form.map(resultOf)
  const entries = Object.entries(form)
  if ("__type__" in form && "__value__" in form && entries.length === 2) {
    try {
      return typedValue(form.__type__, form.__value__) ?? form
    } catch {
      // Not written by a service: an older one stored such maps as they came.
      return form
    }
  }
  return Object.fromEntries(entries.map(([key, item]) => [key, resultOf(item)]))
}
