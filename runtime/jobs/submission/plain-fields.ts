/** The fields of a task that travel as plain JSON, and values that are no task. */
import { CallboardError } from "../../errors.ts"
import { refuseNonObject } from "../../options/refuse.ts"
import { plainJson } from "../../protocol/codec/json-writer.ts"
import { isMap } from "../../protocol/guards.ts"

/** Fails with `invalid-input` for fields that are not an object. An input in their place, for example, would be lost. */
export const checkFields = (fields: unknown): void => refuseNonObject(fields, "a task", "input")

/** Fails with `invalid-input` for what is no list of tasks. */
export const checkTasks = (tasks: unknown): void => {
  if (!Array.isArray(tasks))
    throw new CallboardError("invalid-input", "the tasks must be a list of objects, each with a `task`")
}

export const isTask = <S>(value: S): value is S & object => isMap(value)

export const noTask = () => new CallboardError("invalid-input", "a task must be an object with at least a `task` field")

/** The fields that travel, and are shown, as plain JSON. */
const PLAIN_FIELDS = ["details", "meta", "headers"] as const

/**
 * A submission with these fields as plain JSON holds them, from a transport as over HTTP. Fails with `invalid-input` where
 * that would not hold what they are, naming the place, and for what is no task.
 */
export const withPlainFields = <S>(submission: S): S & object => {
  if (!isTask(submission)) throw noTask()
  let plain = submission
  for (const field of PLAIN_FIELDS) {
    const given: unknown = Reflect.get(submission, field)
    if (given === undefined) continue
    const text = plainJson(given, field)
    if (!("json" in text)) throw new CallboardError("invalid-input", text.message, { field })
    plain = { ...plain, [field]: JSON.parse(text.json) }
  }
  return plain
}
