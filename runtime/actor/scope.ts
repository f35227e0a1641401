/** The controllers of scopes, which decide after a failed try whether there is another one, and with which value. */
import * as Schema from "effect/Schema"
import { parserOf } from "../options/check.ts"
import { wholeNumber } from "../options/fields.ts"
import { refuseInput } from "../options/refuse.ts"
import { RETRY_FIELDS } from "../options/retry-policy.ts"
import { strictJson } from "../protocol/codec/json.ts"
import type { RetryController, StepError } from "./step.ts"

export interface GiveUpOptions {
  /** Whether the scope gives up with `revert-all`. Defaults to false. */
  readonly revertAll?: boolean | undefined
}

export interface TimesOptions extends GiveUpOptions {
  /** Names or tags of the errors after which the scope is tried again. Defaults to every error. */
  readonly on?: ReadonlyArray<string> | undefined
}

const GIVE_UP = { revertAll: Schema.optionalKey(Schema.Boolean) }
const parseTimes = parserOf(Schema.Struct({ ...GIVE_UP, on: RETRY_FIELDS.on }), "times()", "options")
const parseForEach = parserOf(Schema.Struct(GIVE_UP), "forEach()", "options")

/** The scope is never tried again. */
export const alwaysRevert = (): RetryController<undefined> => ({ next: () => undefined, onFailure: () => "revert" })

/** The scope is never tried again, nor is a scope around it, nor the job: all of its steps are reverted. */
export const alwaysRevertAll = (): RetryController<undefined> => ({
  next: () => undefined,
  onFailure: () => "revert-all",
})

/** So many tries in all, 1 or more. The value of each is its number, from 1. */
export const times = (tries: number, options: TimesOptions = {}): RetryController<number> => {
  wholeNumber("tries", tries, { min: 1 })
  const { on, revertAll = false } = parseTimes(options)
  const isMet = (error: StepError | undefined) => on === undefined || on.some((name) => error?.is(name))
  return {
    next: ({ length }) => length + 1,
    onFailure: (history) =>
      history.length < tries && isMet(history.at(-1)?.error) ? "retry" : revertAll ? "revert-all" : "revert",
  }
}

/** One try with each value, in order, until one succeeds. Values that are equal as JSON are tried once. */
export const forEach = <V>(values: ReadonlyArray<V>, options: GiveUpOptions = {}): RetryController<V> => {
  const { revertAll = false } = parseForEach(options)
  if (!Array.isArray(values) || values.length === 0) refuseInput("values", "must be a list with at least one value")
  if (values.some((value) => strictJson(value) === undefined)) refuseInput("values", "must be JSON")
  const distinct = [...new Map(values.map((value) => [JSON.stringify(value), value])).values()]
  return {
    next: ({ length }) => {
      for (const value of distinct.slice(length)) return value
      return refuseInput("values", "must have one for each try")
    },
    onFailure: ({ length }) => (length < distinct.length ? "retry" : revertAll ? "revert-all" : "revert"),
  }
}

/** As {@link forEach}, with values that are known only when the scope begins. `values` is called again in every run of the handler. */
export const parameterizedForEach = <V>(
  values: () => ReadonlyArray<V>,
  options: GiveUpOptions = {},
): RetryController<V> => {
  parseForEach(options)
  if (typeof values !== "function") refuseInput("values", "must be a function that returns a list")
  return {
    next: (history) => forEach(values(), options).next(history),
    onFailure: (history) => forEach(values(), options).onFailure(history),
  }
}
