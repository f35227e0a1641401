/** JSON Schema of a Standard Schema, where its library can tell: for lists of actors and the OpenAPI document. */
import type { StandardSchemaV1 } from "@standard-schema/spec"
import { Schema } from "effect"

const hasJsonSchema = (
  value: unknown,
): value is { readonly jsonSchema: Record<"input" | "output", (options: { target: string }) => unknown> } =>
  typeof value === "object" &&
  value !== null &&
  "jsonSchema" in value &&
  typeof value.jsonSchema === "object" &&
  value.jsonSchema !== null

/** `undefined` where the schema's library offers no JSON Schema, or cannot express this one. */
export const jsonSchemaOf = (schema: StandardSchemaV1, side: "input" | "output"): unknown => {
  try {
    if (Schema.isSchema(schema)) {
      const { schema: root, definitions } = Schema.toJsonSchemaDocument(schema)
      // Named parts are referred to, and must come along.
      return Object.keys(definitions).length === 0 ? root : { ...root, $defs: definitions }
    }
    // Standard JSON Schema: what Zod 4.2+, ArkType and others add beside Standard Schema.
    const standard: unknown = schema["~standard"]
    return hasJsonSchema(standard) ? standard.jsonSchema[side]({ target: "draft-2020-12" }) : undefined
  } catch {
    return undefined
  }
}
