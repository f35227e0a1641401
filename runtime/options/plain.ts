/** Checks the options of a call without a schema, so that a client in a browser has the same rules. */
import { isObject } from "../protocol/guards.ts"
import { DURATION_RULE, type DurationRange, millisecondsIn } from "./duration.ts"
import { refuseInput, refuseUnknown } from "./refuse.ts"

/** What a value must be, as a sentence that follows the name of the option; `undefined`: nothing is wrong with it. */
export type Rule = (value: unknown) => string | undefined

export const isSignal = (value: unknown): value is AbortSignal =>
  isObject(value) && "aborted" in value && "reason" in value

export const signal: Rule = (value) => (isSignal(value) ? undefined : "must be an AbortSignal")

export const flag: Rule = (value) => (typeof value === "boolean" ? undefined : "must be true or false")

export const durationIn =
  (range: DurationRange = {}): Rule =>
  (value) => {
    if (typeof value !== "number" && typeof value !== "string") return DURATION_RULE
    const ms = millisecondsIn(value, range)
    return typeof ms === "number" ? undefined : ms
  }

/** Throws `invalid-input` for a `signal` that is none. */
export const checkSignal = (given: unknown): void => {
  const problem = signal(given)
  if (problem !== undefined) refuseInput("signal", problem)
}

/**
 * A parser of the options of the call `owner`, none of which is required: one that is `undefined` is as if absent. Throws
 * `unknown-field` for an option that the call does not have, and `invalid-input` for every other problem, naming the
 * option.
 */
export const plainParser = <Options>(
  rules: { readonly [Name in keyof Options]-?: Rule },
  owner: string,
): ((given?: unknown) => Options) => {
  return (given = {}) => {
    refuseUnknown(given, rules, owner)
    const options: Record<string, unknown> = {}
    for (const name in rules) {
      // By name, as the caller reads it: an option may be inherited, or a getter of a class.
      const value: unknown = Reflect.get(given, name)
      if (value === undefined) continue
      const problem = rules[name](value)
      if (problem !== undefined) refuseInput(name, problem)
      options[name] = value
    }
    // Each option fits its rule, which the compiler cannot follow.
    return options as Options
  }
}
