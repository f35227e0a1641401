/**
 * JSON Schema of a method's schema, for lists of actors and the OpenAPI document, where the schema's library can make
 * one; and the check of an input by it, in a submitter that does not have the method's own schema.
 */
import type { StandardSchemaV1 } from "@standard-schema/spec"
import * as JsonSchema from "effect/JsonSchema"
import * as Schema from "effect/Schema"
import * as SchemaRepresentation from "effect/SchemaRepresentation"
import { isPromiseLike } from "../async/timers.ts"
import { isObject } from "../protocol/guards.ts"

const hasJsonSchema = (
  value: unknown,
): value is { readonly jsonSchema: Record<"input" | "output", (options: { target: string }) => unknown> } =>
  isObject(value) && "jsonSchema" in value && isObject(value.jsonSchema)

/** The JSON Schema of a schema; `undefined` where its library makes none, or cannot express this schema. */
export const jsonSchemaOf = (schema: StandardSchemaV1, side: "input" | "output"): unknown => {
  try {
    if (Schema.isSchema(schema)) {
      const { schema: root, definitions } = Schema.toJsonSchemaDocument(schema)
      // The schema refers to its named parts, so these are part of the answer.
      return Object.keys(definitions).length === 0 ? root : { ...root, $defs: definitions }
    }
    // Standard JSON Schema: what Zod 4.2+, ArkType and others add beside Standard Schema.
    const standard: unknown = schema["~standard"]
    return hasJsonSchema(standard) ? standard.jsonSchema[side]({ target: "draft-2020-12" }) : undefined
  } catch {
    return undefined
  }
}

/**
 * Whether a JSON Schema of {@link jsonSchemaOf} takes every JSON input that the schema itself takes, so that input may be
 * refused by it. That is known of Effect's schemas, and of a Zod schema unless a part of it converts its input before it checks
 * it: Zod's JSON Schema describes the converted value.
 */
export const isExact = (schema: StandardSchemaV1): boolean => {
  const { vendor } = schema["~standard"]
  return vendor === "effect" || (vendor === "zod" && !rewritesInput(schema, new Set()))
}

/** Whether a Zod schema, or a part of it, coerces, prepares or replaces its input, or is known only when it is used. */
const rewritesInput = (part: unknown, seen: Set<unknown>): boolean => {
  if (!isObject(part) || seen.has(part)) return false
  seen.add(part)
  const internals: unknown = Reflect.get(part, "_zod")
  const def: unknown = isObject(internals) ? Reflect.get(internals, "def") : part
  if (!isObject(def)) return false
  const { type, coerce, in: before }: { type?: unknown; coerce?: unknown; in?: unknown } = def
  if (coerce === true || type === "catch" || type === "lazy" || type === "custom") return true
  if (type === "transform") return true
  // Only the first part of a pipe takes the input; the parts after it do not matter here.
  return type === "pipe" ? rewritesInput(before, seen) : Object.values(def).some((each) => rewritesInput(each, seen))
}

/** Why a schema refuses a value, and in which field. The field is empty for the value as a whole. */
export interface InvalidValue {
  readonly field: string
  readonly message: string
}

/** The first of the issues of a Standard Schema. */
export const firstIssue = ([issue]: ReadonlyArray<StandardSchemaV1.Issue>): InvalidValue => {
  const field = (issue?.path ?? []).map((key) => String(typeof key === "object" ? key.key : key)).join(".")
  const message = issue?.message ?? "is not valid"
  return { field, message: field === "" ? message : `${field}: ${message}` }
}

const compiled = new WeakMap<object, StandardSchemaV1 | null>()

/** A schema from its JSON Schema; `null` where that holds what cannot be checked by it. */
const compile = (published: object): StandardSchemaV1 | null => {
  try {
    const document = JsonSchema.fromSchemaDraft2020_12({ ...published })
    const schema = SchemaRepresentation.fromJsonSchemaDocument(document, { patterns: "apply" })
    return Schema.toStandardSchemaV1(Schema.make<Schema.Codec<unknown>>(schema.ast))
  } catch {
    return null
  }
}

/** What a published JSON Schema finds wrong with an input of strict JSON. `undefined`: nothing, or it cannot tell. */
export const findInvalid = (published: unknown, input: unknown): InvalidValue | undefined => {
  if (!isObject(published)) return undefined
  let schema = compiled.get(published)
  if (schema === undefined) {
    schema = compile(published)
    compiled.set(published, schema)
  }
  const answer = schema?.["~standard"].validate(input)
  if (answer === undefined || isPromiseLike(answer) || answer.issues === undefined) return undefined
  return firstIssue(answer.issues)
}

/**
 * Names of an input's fields by its JSON Schema; `undefined` where there is none, or where it allows further fields.
 */
export const fieldsOf = (input: StandardSchemaV1): ReadonlyArray<string> | undefined => {
  const schema = jsonSchemaOf(input, "input")
  if (!isObject(schema)) return undefined
  const properties: unknown = Reflect.get(schema, "properties")
  const others: unknown = Reflect.get(schema, "additionalProperties")
  return isObject(properties) && !isObject(others) ? Object.keys(properties) : undefined
}
