/** The API reference for people: one page, rendered from the OpenAPI document. It loads nothing and runs no script. */
import type * as JsonSchema from "effect/JsonSchema"
import { html, raw } from "hono/html"
import { isMap } from "../protocol/guards.ts"
import type { OpenApi, OpenApiParameter, Operation } from "./route.ts"

type Html = ReturnType<typeof html>
type Schema = JsonSchema.JsonSchema

export const REFERENCE_HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "cache-control": "no-store",
  "content-security-policy":
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
} as const

export const TEXT_HEADERS = {
  "content-type": "text/plain; charset=utf-8",
  "cache-control": "no-store",
  vary: "accept",
  "x-content-type-options": "nosniff",
} as const

/** Text with `code` in it, in paragraphs. */
const prose = (text: string | undefined): ReadonlyArray<Html> =>
  (text ?? "")
    .split(/\n+/)
    .filter((line) => line !== "")
    .map((line) => html`<p>${inline(line)}</p>`)

const inline = (text: string): ReadonlyArray<Html | string> =>
  text.split("`").map((part, at) => (at % 2 === 1 ? html`<code>${part}</code>` : part))

const isSchema = (value: unknown): value is Schema => isMap(value)

const schemasOf = (value: unknown): ReadonlyArray<Schema> => (Array.isArray(value) ? value.filter(isSchema) : [])

const refOf = (schema: Schema): string | undefined =>
  typeof schema["$ref"] === "string" ? schema["$ref"].replace("#/components/schemas/", "") : undefined

/** A schema in a few words, with links to those that have a name. */
const typeOf = (schema: Schema): ReadonlyArray<Html | string> => {
  const name = refOf(schema)
  if (name !== undefined) return [html`<a href="#schema-${name}">${name}</a>`]
  const parts = schemasOf(schema["allOf"] ?? schema["anyOf"] ?? schema["oneOf"])
  if (parts.length > 0) {
    // An `allOf` here narrows a named schema: the name says enough.
    if (schema["allOf"] !== undefined) return typeOf(parts[0] ?? {})
    return parts.flatMap((part, at) => (at === 0 ? typeOf(part) : [" or ", ...typeOf(part)]))
  }
  if (Array.isArray(schema["enum"])) return [schema["enum"].map((each) => JSON.stringify(each)).join(" | ")]
  if (schema["type"] === "array") {
    return ["list", ...(isSchema(schema["items"]) ? [" of ", ...typeOf(schema["items"])] : [])]
  }
  const range = rangeOf(schema)
  return [`${typeof schema["type"] === "string" ? schema["type"] : "anything"}${range}`]
}

/** A bound as text. The bounds of all safe integers are left out, since they tell nothing. */
const boundOf = (bound: unknown): string | undefined =>
  typeof bound === "number" && Math.abs(bound) < Number.MAX_SAFE_INTEGER ? bound.toLocaleString("en") : undefined

const rangeOf = ({ minimum, maximum, minLength, maxLength }: Schema): string => {
  const [min, max] = [boundOf(minimum), boundOf(maximum)]
  if (min !== undefined && max !== undefined) return `, ${min} to ${max}`
  if (min !== undefined) return `, ${min} or more`
  if (max !== undefined) return `, at most ${max}`
  if (maxLength !== undefined) return `, ${minLength ?? 0}–${maxLength} characters`
  return ""
}

interface Row {
  readonly name: string
  readonly note: string
  readonly schema: Schema
  readonly description: string | undefined
}

const table = (rows: ReadonlyArray<Row>): Html | "" =>
  rows.length === 0
    ? ""
    : html`<div class="scroll"><table><tbody>${rows.map(
        ({ name, note, schema, description }) =>
          html`<tr><th scope="row"><code>${name}</code>${note === "" ? "" : html` <small>${note}</small>`}</th>
<td>${typeOf(schema)}</td><td>${inline(description ?? "")}</td></tr>`,
      )}</tbody></table></div>`

const parameterRow = ({ name, in: where, schema, description }: OpenApiParameter): Row => ({
  name,
  note: where,
  schema,
  description,
})

const stringIn = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined)

const fieldRows = (schema: Schema): ReadonlyArray<Row> => {
  const { properties } = schema
  const required = Array.isArray(schema["required"]) ? schema["required"] : []
  if (!isSchema(properties)) return []
  return Object.entries(properties).flatMap(([name, field]) =>
    isSchema(field)
      ? [
          {
            name,
            note: required.includes(name) ? "required" : "",
            schema: field,
            description: stringIn(field["description"]),
          },
        ]
      : [],
  )
}

const operationSection = (method: string, path: string, operation: Operation): Html => {
  const body = Object.entries(operation.requestBody?.content ?? {})
  const types = body.map(([type]) => type).join(" or ")
  return html`<section id="${operation.operationId}">
<h3><span class="method ${method}">${method.toUpperCase()}</span> <code>${path}</code></h3>
<p>${operation.summary}</p>
${prose(operation.description)}
${table(operation.parameters.map(parameterRow))}
${body.slice(0, 1).map(([, { schema }]) => html`<p>Body (${types}${operation.requestBody?.required ? "" : ", optional"}): ${typeOf(schema)}</p>`)}
<ul class="answers">${Object.entries(operation.responses).map(
    ([status, { description, content }]) =>
      html`<li><b class="s${status.slice(0, 1)}">${status}</b> ${inline(description)}${Object.entries(
        content ?? {},
      ).map(([, { schema }]) => (Number(status) < 400 ? html` — ${typeOf(schema)}` : ""))}</li>`,
  )}</ul>
</section>`
}

const schemaSection = (name: string, schema: Schema): Html => html`<section id="schema-${name}">
<h3>${name}</h3>
${prose(stringIn(schema["description"]))}
${schema["properties"] === undefined ? html`<p>${typeOf(schema)}</p>` : table(fieldRows(schema))}
</section>`

/** What is posted as an example if no actor is known, or may be named. */
const EXAMPLE: Example = { task: "ACTOR.METHOD", input: {} }

export interface Example {
  readonly task: string
  readonly input: unknown
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

const operationsOf = (document: OpenApi) =>
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method, path, operation })),
  )

const submission = (url: string, example: Example): string =>
  `curl ${url}/v1/jobs -H 'content-type: application/json' -d ${quoted(JSON.stringify(example))}`

/** The routes of a document that is served at `url` as text, for a terminal. */
export const referenceTextOf = (document: OpenApi, url: string, example: Example = EXAMPLE): string => {
  const operations = operationsOf(document)
  const width = Math.max(...operations.map(({ path }) => path.length))
  const groups = document.tags.map(({ name }) =>
    [
      name,
      ...operations
        .filter(({ operation }) => operation.tags.includes(name))
        .map(({ method, path, operation }) =>
          `  ${method.toUpperCase().padEnd(6)} ${path.padEnd(width)}  ${operation.summary}`.trimEnd(),
        ),
    ].join("\n"),
  )
  return `Callboard ${document.info.version}

  ${submission(url, example)}

${groups.join("\n\n")}

More of each, and the schemas: ${url}/reference; for programs: ${url}/openapi.json
`
}

/** The page for a document that is served at `url`. `example`: a task that a live worker serves. */
export const referenceOf = async (document: OpenApi, url: string, example: Example = EXAMPLE): Promise<string> => {
  const operations = operationsOf(document)
  const of = (tag: string) => operations.filter(({ operation }) => operation.tags.includes(tag))
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Callboard: HTTP interface</title>
<style>${raw(REFERENCE_STYLE)}</style>
</head>
<body>
<header>
<h1>Callboard <small>${document.info.version}</small></h1>
${prose(document.info.description)}
<pre><code>${submission(url, example)}</code></pre>
<p>For programs: <a href="${url}/openapi.json">openapi.json</a></p>
</header>
<nav>${document.tags.map(
    ({ name }) =>
      html`<details open><summary>${name}</summary><ul>${of(name).map(
        ({ method, path, operation }) =>
          html`<li><a href="#${operation.operationId}"><span class="method ${method}">${method.toUpperCase()}</span> <code>${path}</code></a></li>`,
      )}</ul></details>`,
  )}</nav>
<main>
${document.tags.map(
  ({ name }) =>
    html`<h2>${name}</h2>${of(name).map(({ method, path, operation }) => operationSection(method, path, operation))}`,
)}
<h2>Schemas</h2>
${Object.entries(document.components.schemas).map(([name, schema]) => schemaSection(name, schema))}
</main>
</body>
</html>`
  return String(await page)
}

const REFERENCE_STYLE = `
:root { color-scheme: light dark; --line: light-dark(#d8dde3, #3a4048); --soft: light-dark(#f5f7f9, #1d2126);
  --text: light-dark(#1c2126, #e3e7ec); --quiet: light-dark(#5b6570, #9aa5b1); --link: light-dark(#0b5cad, #7db8ff) }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 62rem; padding: 1rem; font: 16px/1.5 system-ui, sans-serif; color: var(--text);
  background: light-dark(#fff, #14171a) }
h1, h2, h3 { line-height: 1.2 }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line) }
h3 { overflow-wrap: anywhere }
a { color: var(--link) }
small { color: var(--quiet); font-weight: normal }
code, pre { font: 0.9em ui-monospace, monospace }
code { overflow-wrap: anywhere }
pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: 0.75rem; background: var(--soft); border: 1px solid var(--line); border-radius: 6px }
nav ul, .answers { padding-left: 0; list-style: none }
nav a { text-decoration: none }
section { margin: 1.5rem 0; padding-left: 1rem; border-left: 3px solid var(--line) }
section:target { border-color: var(--link) }
.scroll { overflow-x: auto }
table { width: 100%; border-collapse: collapse; font-size: 0.93em }
th, td { padding: 0.3rem 0.75rem 0.3rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top }
.method { display: inline-block; min-width: 4.2em; font: bold 0.8em ui-monospace, monospace; color: var(--quiet) }
.get { color: light-dark(#0a6b3d, #63d29a) } .post { color: light-dark(#0b5cad, #7db8ff) }
.delete { color: light-dark(#b3261e, #ff9a92) } .patch { color: light-dark(#8a5a00, #f0c060) }
.s2 { color: light-dark(#0a6b3d, #63d29a) } .s4, .s5 { color: light-dark(#b3261e, #ff9a92) }
`
