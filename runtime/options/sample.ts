/** An input that a method is likely to take, made from the JSON Schema of its input: for the `curl` to paste. */
import { existsSync } from "node:fs"
import { isMap } from "../protocol/guards.ts"

type JsonSchema = Readonly<Record<string, unknown>>

const isSchema = (value: unknown): value is JsonSchema => isMap(value)

const first = (value: unknown): unknown => (Array.isArray(value) ? value[0] : undefined)

/** Deep enough for what people write by hand, and an end for schemas that contain themselves. */
const MAX_DEPTH = 8

/** A value that fits the schema, as far as can be told without solving it. `root` holds the definitions. */
export const sampleOf = (schema: unknown, name = "", root: unknown = schema, depth = 0): unknown => {
  if (!isSchema(schema) || depth > MAX_DEPTH) return {}
  const inner = (other: unknown, innerName = name) => sampleOf(other, innerName, root, depth + 1)
  for (const given of [first(schema["examples"]), schema["default"], schema["const"], first(schema["enum"])]) {
    if (given !== undefined) return given
  }
  const { $ref, allOf } = schema
  if (typeof $ref === "string") return inner(referred(root, $ref))
  const choice = first(schema["anyOf"]) ?? first(schema["oneOf"])
  if (choice !== undefined) return inner(choice)
  if (Array.isArray(allOf) && schema["type"] !== "object") {
    // Checks of one value come as parts of its schema.
    return inner(Object.assign({}, { ...schema, allOf: undefined }, ...allOf.filter(isSchema)))
  }
  switch (Array.isArray(schema["type"]) ? first(schema["type"]) : schema["type"]) {
    case "string":
      return sampleText(schema, name)
    case "number":
    case "integer":
      return sampleNumber(schema)
    case "boolean":
      return true
    case "null":
      return null
    case "array": {
      const min = typeof schema["minItems"] === "number" ? schema["minItems"] : 1
      return Array.from({ length: min }, () => inner(schema["items"] ?? first(schema["prefixItems"])))
    }
    default:
      return sampleObject(schema, inner)
  }
}

const referred = (root: unknown, reference: string): unknown =>
  reference
    .replace(/^#\/?/, "")
    .split("/")
    .reduce<unknown>(
      (at, key) => (isSchema(at) ? at[key.replaceAll("~1", "/").replaceAll("~0", "~")] : undefined),
      root,
    )

const sampleObject = (schema: JsonSchema, inner: (schema: unknown, name: string) => unknown): unknown => {
  const properties = isSchema(schema["properties"]) ? schema["properties"] : {}
  const required = schema["required"]
  const names = Array.isArray(required) ? required.filter((name) => typeof name === "string") : []
  return Object.fromEntries(names.map((name) => [name, inner(properties[name], name)]))
}

const sampleNumber = (schema: JsonSchema): number => {
  const { minimum, exclusiveMinimum, maximum } = schema
  if (typeof minimum === "number") return minimum
  if (typeof exclusiveMinimum === "number") return exclusiveMinimum + 1
  return typeof maximum === "number" ? Math.min(1, maximum) : 1
}

/** Files that most folders with a project have: a path that exists makes a job that succeeds. */
const LIKELY_FILES = ["README.md", "package.json"]

const sampleText = (schema: JsonSchema, name: string): string => {
  switch (schema["format"]) {
    case "uri":
    case "url":
      return "https://example.com"
    case "email":
      return "ada@example.com"
    case "date":
      return new Date().toISOString().slice(0, 10)
    case "date-time":
      return new Date().toISOString()
    case "uuid":
      return "0198a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b"
  }
  if (/path|file/i.test(name)) return LIKELY_FILES.find((file) => existsSync(file)) ?? "README.md"
  if (/ur[il]$/i.test(name)) return "https://example.com"
  const min = typeof schema["minLength"] === "number" ? schema["minLength"] : 0
  return (name === "" ? "text" : name).padEnd(min, ".")
}
