/** The OpenAPI document and the page that is made from it. */
import { Validator } from "@seriousme/openapi-schema-validator"
import { Schema } from "effect"
import { afterEach, describe, expect, test } from "vitest"
import { ERROR_CODES } from "../../../../runtime/errors.ts"
import { routes } from "../../../../runtime/http/app.ts"
import { openApiOf } from "../../../../runtime/http/openapi.ts"
import { PROBLEMS } from "../../../../runtime/http/response.ts"
import { scopesOf } from "../../../../runtime/http/route.ts"
import { SubmissionSchema } from "../../../../runtime/jobs/submission/submission.ts"
import { eventually } from "../../../support/servers/process.ts"
import { start, stopAll } from "./harness.ts"

afterEach(stopAll)

const document = openApiOf(routes, "", true)

describe("the OpenAPI document", () => {
  test("is valid OpenAPI 3.1", async () => {
    const { url } = await start()
    const text = await (await fetch(`${url}/openapi.json`)).text()
    const validator = new Validator()
    expect(await validator.validate(JSON.parse(text))).toMatchObject({ valid: true })
    expect(validator.version).toBe("3.1")
  })

  test("a document with a mistake would not be", async () => {
    const { info: _info, ...broken } = document
    expect(await new Validator().validate(broken)).toMatchObject({ valid: false })
  })

  test("describes every route, each operation by a name of its own", () => {
    const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    )
    expect(operations.sort()).toEqual(routes.map(({ method, path }) => `${method} ${path}`).sort())
    expect(new Set(routes.map(({ operation }) => operation)).size).toBe(routes.length)
  })

  test("says of every parameter what it is", () => {
    const parameters = Object.values(document.paths).flatMap((methods) =>
      Object.values(methods).flatMap((operation) => operation.parameters),
    )
    expect(parameters.length).toBeGreaterThan(30)
    expect(parameters.filter(({ description }) => description === undefined).map(({ name }) => name)).toEqual([])
  })

  test("names the arguments of each command to workers", () => {
    const described = Object.entries(document.paths).flatMap(([path, { post }]) => {
      const [, name] = /^\/v1\/control\/(.*)/.exec(path) ?? []
      const schema = post?.requestBody?.content["application/json"]?.schema
      return name === undefined ? [] : [[name, Object.keys(Object(schema?.["properties"])), schema?.["required"]]]
    })
    expect(described).toEqual([
      ["pool-grow", ["count"], ["count"]],
      ["pool-shrink", ["count"], ["count"]],
      ["autoscale", ["min", "max"], ["min", "max"]],
      ["add-consumer", ["queue"], ["queue"]],
      ["cancel-consumer", ["queue"], ["queue"]],
      ["time-limit", ["task", "hard", "soft"], ["task", "hard"]],
      ["rate-limit", ["task", "rate"], ["task", "rate"]],
      ["enable-events", [], undefined],
      ["disable-events", [], undefined],
      ["shutdown", [], undefined],
    ])
  })

  test("every reference leads somewhere", () => {
    const text = JSON.stringify(document)
    const referenced = [...text.matchAll(/"\$ref":"#\/components\/schemas\/([^"]+)"/g)].map((match) => match[1])
    expect(referenced.length).toBeGreaterThan(20)
    expect(Object.keys(document.components.schemas)).toEqual(expect.arrayContaining([...new Set(referenced)]))
    expect(text).not.toContain("#/$defs/")
  })

  test("the body of a task is the schema that checks it", () => {
    const { definitions } = Schema.toJsonSchemaDocument(SubmissionSchema, { onExcessProperty: "error" })
    const described = document.components.schemas["Task"]
    expect(Object.keys(Object(described?.["properties"]))).toEqual(Object.keys(SubmissionSchema.fields))
    expect(described?.["additionalProperties"]).toBe(false)
    expect(described?.["required"]).toEqual(definitions["Task"]?.["required"])
    expect(Object(described?.["properties"]).id.pattern).toBe("^[A-Za-z0-9_-]{1,128}$")
  })

  test("the same schema is closed in a request and open in a response", () => {
    const schema = Schema.Struct({ a: Schema.String })
    const both = { body: { "application/json": schema }, responses: [{ status: 200, description: "", schema }] }
    const { paths } = openApiOf(
      routes.slice(0, 1).map((route) => ({ ...route, ...both })),
      "",
      false,
    )
    const [operation] = Object.values(paths).flatMap((methods) => Object.values(methods))
    expect(operation?.requestBody?.content["application/json"]?.schema).toHaveProperty("additionalProperties", false)
    expect(operation?.responses["200"]?.content?.["application/json"]?.schema).not.toHaveProperty(
      "additionalProperties",
      false,
    )
  })

  test("names the scope of each route, and every code with its status", () => {
    for (const route of routes) {
      const { path, method, scope } = route
      const operation = document.paths[path]?.[method.toLowerCase()]
      expect(operation?.security).toEqual(scope === undefined ? [{}] : [{ token: scopesOf(route) }])
    }
    const text = JSON.stringify(document)
    // Rates are limited by a later version; the code is reserved for it.
    for (const code of ERROR_CODES.filter((each) => each !== "rate-limited")) expect(text).toContain(`\`${code}\``)
    expect(Object.keys(PROBLEMS)).toHaveLength(23)
  })
})

const curlIn = (page: string): string => /<pre><code>(curl [^<]*)<\/code><\/pre>/.exec(page)?.[1] ?? ""

describe("the reference page", () => {
  test("posts a task that exists, names what an id is of, and has bounds to be read", async () => {
    const { url } = await start()
    const page = await eventually(async () => {
      const text = await (await fetch(`${url}/reference`)).text()
      return curlIn(text).includes("ACTOR.METHOD") ? undefined : text
    })
    expect(curlIn(page)).toMatch(/\/v1\/jobs .*task.*work/)
    expect(page).toMatch(/pre \{ white-space: pre-wrap/)
    expect(page).not.toContain("9007199254740991")
    expect(page).toContain("integer, 1 to 1,000")
    const idOf = (path: string) => document.paths[path]?.["post"]?.parameters[0]?.description
    expect(idOf("/v1/queues/{id}/pause")).toBe("Name of the queue")
    expect(idOf("/v1/jobs/{id}/cancel")).toBe("Id of the job")
  })

  test("tells no names where tokens are needed", async () => {
    const { url } = await start({ http: { port: 0, tokens: [{ token: "secret", scopes: ["read"] }] } })
    expect(curlIn(await (await fetch(`${url}/reference`)).text())).toContain("ACTOR.METHOD")
    expect(await (await fetch(url)).text()).toContain("ACTOR.METHOD")
  })

  test("is text for a terminal at the root", async () => {
    const { url } = await start()
    const response = await fetch(`${url}/`)
    expect(response.headers.get("content-type")).toBe("text/plain; charset=utf-8")
    const text = await response.text()
    for (const { path, method, summary } of routes) {
      expect(text).toMatch(new RegExp(`${method} +${path.replaceAll(/[{}]/g, "\\$&")} +${summary.slice(0, 12)}`))
    }
    expect(text).toContain(`${url}/reference`)
    expect(text).toMatch(/^ {2}curl .*\/v1\/jobs /m)
  })

  test("shows every route and schema, and asks nobody for anything", async () => {
    const { url } = await start()
    const response = await fetch(`${url}/reference`)
    expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8")
    expect(response.headers.get("content-security-policy")).toContain("default-src 'none'")
    const page = await response.text()
    for (const { path, operation } of routes) {
      expect(page).toContain(`<code>${path}</code>`)
      expect(page).toContain(`id="${operation}"`)
    }
    for (const name of Object.keys(document.components.schemas)) expect(page).toContain(`id="schema-${name}"`)
    for (const [, target] of page.matchAll(/href="#([^"]+)"/g)) expect(page).toContain(`id="${target}"`)
    expect(page).not.toMatch(/<script|<img|<link|src=|@import|url\(/)
    for (const [, link] of page.matchAll(/href="([^"#][^"]*)"/g)) expect(link?.startsWith(url)).toBe(true)
    expect(page).toContain("light-dark(")
  })
})
