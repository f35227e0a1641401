/**
 * JSON Schema of a method's schema, for lists of actors and the OpenAPI document, where the schema's library can make
 * one.
 */
import type { StandardSchemaV1 } from "@standard-schema/spec"
import { Schema } from "effect"

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null

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
 * Names of an input's fields by its JSON Schema; `undefined` where there is none, or where it allows further fields.
 */
export const fieldsOf = (input: StandardSchemaV1): ReadonlyArray<string> | undefined => {
  const schema = jsonSchemaOf(input, "input")
  if (!isObject(schema)) return undefined
  const properties: unknown = Reflect.get(schema, "properties")
  const others: unknown = Reflect.get(schema, "additionalProperties")
  return isObject(properties) && !isObject(others) ? Object.keys(properties) : undefined
}
