/** The stored form of the error that a step throws. */
import { StepError } from "../actor/step.ts"
import { jobError, readable } from "../jobs/outcome/job-error.ts"
import { strictJson } from "../protocol/codec/json.ts"
import { compact } from "../protocol/compact.ts"
import { isObject } from "../protocol/guards.ts"
import type { StepFailure } from "./page.ts"

const MAX_CAUSES = 8
const MAX_NAMES = 16
/** Most characters of JSON for the fields of an error. */
const MAX_FIELDS = 4_096
const OWN = new Set(["name", "message", "stack", "cause", "_tag", "names", "fields", "errors"])

/** The stored form of any thrown value; never throws itself. */
export const failureOf = (given: unknown, depth = 0): StepFailure => {
  const thrown = readable(given)
  if (thrown instanceof StepError) return ofStepError(thrown, depth)
  const { name, message, traceback } = jobError(thrown)
  const fields = fieldsOf(thrown)
  const cause = thrown instanceof Error ? thrown.cause : undefined
  return {
    names: namesOf(thrown, name),
    message,
    ...(traceback === undefined || depth > 0 ? {} : { traceback }),
    ...compact({ fields }),
    ...(cause === undefined || cause === null || depth === MAX_CAUSES ? {} : { cause: failureOf(cause, depth + 1) }),
  }
}

const ofStepError = ({ names, message, fields, stack, cause }: StepError, depth: number): StepFailure => ({
  names,
  message,
  fields,
  ...(stack === undefined || depth > 0 ? {} : { traceback: stack }),
  ...(cause === undefined || depth === MAX_CAUSES ? {} : { cause: failureOf(cause, depth + 1) }),
})

export const errorOf = ({ cause, ...failure }: StepFailure): StepError =>
  new StepError({ ...failure, ...(cause === undefined ? {} : { cause: errorOf(cause) }) })

/** A failure that the engine detects, not one that the step's function throws. */
export const failureNamed = (name: string, message: string): StepFailure => ({ names: [name], message })

const namesOf = (thrown: unknown, first: string): ReadonlyArray<string> => {
  const names = [first]
  try {
    for (let each: unknown = Object.getPrototypeOf(thrown); isObject(each) && names.length < MAX_NAMES; ) {
      const { name } = each.constructor
      if (name !== "" && name !== "Object" && !names.includes(name)) names.push(name)
      each = Object.getPrototypeOf(each)
    }
  } catch {
    // `thrown` is a primitive, or a proxy that throws: its first name is enough.
  }
  return names
}

const fieldsOf = (thrown: unknown): Readonly<Record<string, unknown>> | undefined => {
  if (!isObject(thrown)) return undefined
  const fields: Record<string, unknown> = {}
  let length = 0
  try {
    for (const [key, value] of Object.entries(thrown)) {
      if (OWN.has(key) || value === undefined) continue
      const form = strictJson(value)
      length += key.length + (form === undefined ? 0 : JSON.stringify(form).length)
      if (form !== undefined && length <= MAX_FIELDS) fields[key] = form
    }
  } catch {
    // A getter has thrown: the fields before it are kept.
  }
  return Object.keys(fields).length === 0 ? undefined : fields
}
