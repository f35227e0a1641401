/**
 * Converts between the arguments of a body and the input of a method, so that Celery's `add.delay(2, 3)` and HTTP's
 * `{"input": {"x": 2, "y": 3}}` give a handler the same input.
 */
import * as Result from "effect/Result"
import { type Body, type Embed, NO_EMBED } from "./body.ts"
import { isPlainObject } from "./guards.ts"

/** Arguments that make no input. `field`: the name of the argument. */
export interface InvalidInput {
  readonly _tag: "InvalidInput"
  readonly field: string
  readonly message: string
}

const invalid = (field: string, message: string): Result.Result<never, InvalidInput> =>
  Result.fail({ _tag: "InvalidInput", field, message })

const isEmpty = (map: object): boolean => {
  for (const _ in map) return false
  return true
}

/**
 * The input of a method from the arguments of a task.
 *
 * - Without positional arguments it is `kwargs`, as an object.
 * - With `params` (the method's names for positional arguments) positional arguments are put under those names, beside
 *   `kwargs`; more arguments than names, or one name twice, fail.
 * - Without `params` one positional argument is the input itself; several, or some with `kwargs`, are `{args, kwargs}`.
 *
 * Fails with {@link InvalidInput}.
 */
export const selectInput = (
  body: Pick<Body, "args" | "kwargs">,
  params?: ReadonlyArray<string>,
): Result.Result<unknown, InvalidInput> => {
  const { args, kwargs } = body
  if (args.length === 0) return Result.succeed(kwargs)
  if (params !== undefined) return namedInput(args, kwargs, params)
  return Result.succeed(args.length === 1 && isEmpty(kwargs) ? args[0] : { args, kwargs })
}

const namedInput = (
  args: Body["args"],
  kwargs: Body["kwargs"],
  params: ReadonlyArray<string>,
): Result.Result<unknown, InvalidInput> => {
  if (args.length > params.length) {
    const names = params.length === 0 ? "none" : params.join(", ")
    return invalid(
      "args",
      `There are ${args.length} positional arguments, but the method has ${params.length} (${names}).`,
    )
  }
  const input: Record<string, unknown> = { ...kwargs }
  for (const [at, value] of args.entries()) {
    const name = params[at] ?? ""
    if (Object.hasOwn(kwargs, name)) return invalid(name, `"${name}" is set twice, by position and by name.`)
    input[name] = value
  }
  return Result.succeed(input)
}

/** The input of a submission: `input`, or `args` and `kwargs`. */
export interface GivenInput {
  readonly input?: unknown
  readonly args?: unknown
  readonly kwargs?: unknown
}

const NO_ARGS: ReadonlyArray<unknown> = Object.freeze([])
const EMPTY: Readonly<Record<string, unknown>> = Object.freeze({})

/** Whether a map has the form of a typed value, such as `{"__type__": "int", "__value__": "5"}`: codecs make the value of it. */
const isTyped = (map: Readonly<Record<string, unknown>>): boolean =>
  Object.keys(map).length === 2 && map["__type__"] !== undefined && map["__value__"] !== undefined

/**
 * The body for the input of a submission, of which {@link selectInput} makes the same input again: an `input` that is an
 * object becomes `kwargs`, any other `input` the only positional argument. Fails with {@link InvalidInput} where `input`
 * comes together with `args` or `kwargs`, or one of those has a wrong type.
 */
export const bodyOfInput = (given: GivenInput, embed: Embed = NO_EMBED): Result.Result<Body, InvalidInput> => {
  const { input, args, kwargs } = given
  if (input !== undefined) {
    if (args !== undefined || kwargs !== undefined) {
      return invalid("input", `Use either "input" or "args" and "kwargs", not both.`)
    }
    return Result.succeed(
      isPlainObject(input) && !isTyped(input)
        ? { args: NO_ARGS, kwargs: input, embed }
        : { args: [input], kwargs: EMPTY, embed },
    )
  }
  if (args !== undefined && !Array.isArray(args)) return invalid("args", `"args" must be a list.`)
  if (isPlainObject(kwargs) && isTyped(kwargs)) return invalid("kwargs", `"kwargs" is a typed value, not a map.`)
  if (kwargs !== undefined && !isPlainObject(kwargs)) return invalid("kwargs", `"kwargs" must be an object.`)
  return Result.succeed({ args: args ?? NO_ARGS, kwargs: kwargs ?? EMPTY, embed })
}
