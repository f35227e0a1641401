/**
 * Parses the query of a request: the text of each parameter becomes a value of its schema. A parameter that is unknown,
 * wrong, or given twice although it is no list, is refused by its name.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { CallboardError } from "../errors.ts"
import { issueOf } from "../options/check.ts"
import { unknownOption } from "../options/refuse.ts"
import { beginning } from "../protocol/text.ts"
import type { Parameter, Parameters, Values } from "../routes/parameter.ts"

const partsOf = (given: string): ReadonlyArray<string> => given.split(",").map((each) => each.trim())

/** The value that a text stands for. A text that stands for none is returned as it is, and the schema refuses it. */
const read = (form: Exclude<Parameter["form"], "list">, given: string): unknown => {
  switch (form) {
    case "text":
      return given
    case "integer":
      return /^-?\d{1,15}$/.test(given) ? Number(given) : given
    case "boolean":
      return given === "true" ? true : given === "false" ? false : given
  }
}

/** Reads the query of a request to `owner`, which its refusals name. The result fails with `unknown-field` or `invalid-input`, naming the parameter. */
export const queryParserOf = <P extends Parameters>(
  parameters: P,
  owner: string,
): ((query: URLSearchParams) => Result.Result<Values<P>, CallboardError>) => {
  const names = Object.keys(parameters)
  const fields: Record<string, Schema.optionalKey<Schema.Codec<unknown>>> = {}
  for (const [name, { schema }] of Object.entries(parameters)) fields[name] = Schema.optionalKey(schema)
  const decode = Schema.decodeUnknownResult(Schema.Struct(fields))
  return (query) => {
    const values: Record<string, unknown> = {}
    for (const [name, given] of query) {
      const parameter = Object.hasOwn(parameters, name) ? parameters[name] : undefined
      if (parameter === undefined) {
        return Result.fail(unknownOption(beginning(name, 60), names, owner))
      }
      const before = values[name]
      if (parameter.form === "list") {
        values[name] = Array.isArray(before) ? [...before, ...partsOf(given)] : partsOf(given)
        continue
      }
      if (before !== undefined) return refuse(name, "is given twice")
      values[name] = read(parameter.form, given)
    }
    const decoded = decode(values)
    if (Result.isFailure(decoded)) {
      const { path, message } = issueOf(decoded.failure.issue)
      const field = names.find((name) => path === name || path.startsWith(`${name}.`)) ?? path
      const isNoNumber = parameters[field]?.form === "integer" && typeof values[field] === "string"
      return refuse(field, isNoNumber ? "must be a whole number" : message)
    }
    // The struct was made of these parameters in the loop above, which the compiler cannot follow.
    return Result.succeed(decoded.success as Values<P>)
  }
}

const refuse = (field: string, why: string): Result.Result<never, CallboardError> =>
  Result.fail(new CallboardError("invalid-input", `${field}: ${why}`, { field: beginning(field, 60) }))
