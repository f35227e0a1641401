import { Schema } from "effect"
import { expect, test } from "vitest"
import * as z from "zod"
import { jsonSchemaOf } from "../../../../runtime/options/json-schema.ts"

test("every reference of a schema with named parts leads somewhere", () => {
  const Page = Schema.Struct({ text: Schema.String }).annotate({ identifier: "Page" })
  const schema = jsonSchemaOf(Schema.toStandardSchemaV1(Schema.Struct({ first: Page, last: Page })), "input")
  const text = JSON.stringify(schema)
  for (const [, name] of text.matchAll(/"#\/\$defs\/(\w+)"/g)) {
    expect(schema).toHaveProperty(["$defs", name ?? "", "type"], "object")
  }
  expect(text).toContain('"text"')
})

test("what other libraries add beside Standard Schema is used", () => {
  expect(jsonSchemaOf(z.object({ a: z.number() }), "input")).toMatchObject({ properties: { a: { type: "number" } } })
})

test("a schema that cannot tell, or fails to, has none", () => {
  const silent = { "~standard": { version: 1 as const, vendor: "none", validate: (value: unknown) => ({ value }) } }
  expect(jsonSchemaOf(silent, "input")).toBeUndefined()
  const failing = {
    "~standard": {
      ...silent["~standard"],
      jsonSchema: {
        input: () => {
          throw new Error("no")
        },
      },
    },
  }
  expect(jsonSchemaOf(failing, "input")).toBeUndefined()
})
