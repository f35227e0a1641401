/** Readers for single headers: each returns the value, `null` where there is none, or what is wrong. */
import * as Result from "effect/Result"
import type { Headers } from "./message.ts"
import { isId, MAX_ID_BYTES } from "./name.ts"
import { parseTime } from "./time.ts"

/** Why headers make no task. `field`: the name of the header that is wrong. */
export interface InvalidTask {
  readonly _tag: "InvalidTask"
  readonly field: string
  readonly message: string
}

/**
 * What is wrong with a header. A class of its own and not a `Result`, so that reading a valid header allocates nothing.
 */
export class HeaderProblem {
  readonly field: string
  readonly why: string
  constructor(field: string, why: string) {
    this.field = field
    this.why = why
  }
}

/** The failure for a wrong header. */
export const invalidTask = (problem: HeaderProblem): InvalidTask => ({
  _tag: "InvalidTask",
  field: problem.field,
  message: `Header "${problem.field}" ${problem.why}.`,
})

/** The type of a value, for an error message. */
export const describe = (value: unknown): string =>
  value === null ? "null" : Array.isArray(value) ? "a list" : typeof value === "object" ? "a map" : `a ${typeof value}`

export const text = (headers: Headers, field: string): string | null | HeaderProblem => {
  const value = headers[field]
  if (typeof value === "string") return value
  return value === undefined || value === null ? null : new HeaderProblem(field, `must be text, not ${describe(value)}`)
}

/** Text, where empty text counts as absent. */
export const filledText = (headers: Headers, field: string): string | null | HeaderProblem => {
  const value = text(headers, field)
  return value === "" ? null : value
}

/** An id, where empty text counts as absent. */
export const identifier = (headers: Headers, field: string): string | null | HeaderProblem => {
  const value = filledText(headers, field)
  if (typeof value !== "string" || isId(value)) return value
  return new HeaderProblem(field, `must be well-formed text of at most ${MAX_ID_BYTES} bytes`)
}

/** A time, in milliseconds since the epoch. */
export const time = (headers: Headers, field: string): number | null | HeaderProblem => {
  const value = headers[field]
  if (value === undefined || value === null || value === "") return null
  if (typeof value !== "string")
    return new HeaderProblem(field, `must be an ISO 8601 time as text, not ${describe(value)}`)
  const parsed = parseTime(value)
  return Result.isFailure(parsed)
    ? new HeaderProblem(field, `is not a time: ${parsed.failure.message}`)
    : parsed.success
}

/** A whole number, 0 or more. */
export const count = (headers: Headers, field: string): number | null | HeaderProblem => {
  const value = headers[field]
  if (value === undefined || value === null) return null
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return value
  return new HeaderProblem(
    field,
    `must be a whole number, 0 or more, not ${typeof value === "number" ? value : describe(value)}`,
  )
}

/** A boolean. Some brokers pass the booleans of Python's senders on as 0 and 1. */
export const flag = (headers: Headers, field: string): boolean | HeaderProblem => {
  const value = headers[field]
  if (typeof value === "boolean") return value
  if (value === undefined || value === null) return false
  return value === 0 || value === 1
    ? value === 1
    : new HeaderProblem(field, `must be true or false, not ${describe(value)}`)
}

export const isTexts = (value: unknown): value is ReadonlyArray<string> =>
  Array.isArray(value) && value.every((item) => typeof item === "string")

export const isFiniteNumber = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value)
