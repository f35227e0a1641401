/** Reads answers of the JetStream API, of which nothing is believed before it is looked at. */
import { type ApiError, apiError } from "./errors.ts"

/** What lies at a path of keys, or `undefined`. */
export const at = (value: unknown, ...path: ReadonlyArray<string>): unknown => {
  let here = value
  for (const key of path) {
    if (typeof here !== "object" || here === null) return undefined
    here = Object.hasOwn(here, key) ? Reflect.get(here, key) : undefined
  }
  return here
}

export const numberAt = (value: unknown, ...path: ReadonlyArray<string>): number => {
  const found = at(value, ...path)
  return typeof found === "number" ? found : 0
}

export const textAt = (value: unknown, ...path: ReadonlyArray<string>): string => {
  const found = at(value, ...path)
  return typeof found === "string" ? found : ""
}

export const listAt = (value: unknown, ...path: ReadonlyArray<string>): ReadonlyArray<unknown> => {
  const found = at(value, ...path)
  return Array.isArray(found) ? found : []
}

export const objectAt = (value: unknown, ...path: ReadonlyArray<string>): Readonly<Record<string, unknown>> => {
  const found = at(value, ...path)
  return isObject(found) ? found : {}
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The error in an answer, if it holds one. */
export const errorIn = (answer: unknown): ApiError | undefined => {
  const error = at(answer, "error")
  return error === undefined
    ? undefined
    : (apiError(error) ?? { code: 500, err_code: 0, description: "no description" })
}
