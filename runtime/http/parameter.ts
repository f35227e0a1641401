/**
 * Query parameters: text that becomes a value of a schema. A parameter that is unknown, given twice or wrong is refused by
 * its name.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { CallboardError } from "../errors.ts"
import { issueOf } from "../options/check.ts"
import { unknownOption } from "../options/refuse.ts"
import { beginning } from "../protocol/text.ts"

export interface Parameter<S extends Schema.Codec<unknown> = Schema.Codec<unknown>> {
  /** How text becomes the value that the schema checks. */
  readonly form: "text" | "integer" | "boolean" | "list"
  readonly schema: S
}

export type Parameters = Readonly<Record<string, Parameter>>

/** The values of checked parameters. */
export type Values<P extends Parameters> = { readonly [K in keyof P]?: P[K]["schema"]["Type"] }

export const text = <S extends Schema.Codec<string>>(schema: S) => ({ form: "text", schema }) as const
export const integer = <S extends Schema.Codec<number>>(schema: S) => ({ form: "integer", schema }) as const
export const boolean = <S extends Schema.Codec<boolean>>(schema: S) => ({ form: "boolean", schema }) as const
/** Values with commas between them. */
export const list = <S extends Schema.Codec<ReadonlyArray<unknown>>>(schema: S) => ({ form: "list", schema }) as const

/** The value that a text stands for. A text that stands for none is returned as it is, and the schema refuses it. */
const read = (form: Parameter["form"], given: string): unknown => {
  switch (form) {
    case "text":
      return given
    case "integer":
      return /^-?\d{1,15}$/.test(given) ? Number(given) : given
    case "boolean":
      return given === "true" ? true : given === "false" ? false : given
    case "list":
      return given.split(",").map((each) => each.trim())
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
      if (Object.hasOwn(values, name)) return refuse(name, "is given twice")
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
