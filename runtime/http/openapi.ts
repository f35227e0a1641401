/** The OpenAPI 3.1 document: made from the routes that are served and the schemas that check them. */
import * as JsonSchema from "effect/JsonSchema"
import * as Schema from "effect/Schema"
import { Problem } from "../jobs/responses.ts"
import type { RouteResponse } from "../routes/description.ts"
import { VERSION } from "../version.ts"
import { PROBLEMS } from "./response.ts"
import {
  type OpenApi,
  type OpenApiParameter,
  type OpenApiResponse,
  type Operation,
  problemsOf,
  type Route,
  scopesOf,
} from "./route.ts"

const DESCRIPTION = `Submit a task and get an id. Use the id for its state, progress, result and events, and to cancel it.

Errors are problems (RFC 9457, \`application/problem+json\`); programs use their \`code\`. Times are ISO 8601 in UTC.
If tokens are set, send one as \`Authorization: Bearer <token>\`; the scope \`admin\` includes all others, and \`read\` includes \`payload\`, unless it is combined with \`no-payload\`.`

type Side = "request" | "response"
type DescribedSchema = { readonly schema: JsonSchema.JsonSchema; readonly named: JsonSchema.Definitions }

/** Describing a schema takes long, many routes have the same ones, and the services of a process have the same routes. */
const described: Readonly<Record<Side, WeakMap<Schema.Top, DescribedSchema>>> = {
  request: new WeakMap(),
  response: new WeakMap(),
}

/**
 * Schemas of requests are closed, since an unknown field is refused. Those of responses are open: later versions may
 * add fields.
 */
const describe = (schema: Schema.Top, side: Side): DescribedSchema => {
  const known = described[side].get(schema)
  if (known !== undefined) return known
  const { schema: root, definitions } = Schema.toJsonSchemaDocument(schema, {
    onExcessProperty: side === "request" ? "error" : "ignore",
  })
  const { schemas, definitions: named } = JsonSchema.toMultiDocumentOpenApi3_1({
    dialect: "draft-2020-12",
    schemas: [root],
    definitions,
  })
  const made = { schema: schemas[0], named }
  described[side].set(schema, made)
  return made
}

/** Collects the schemas of a document, so that a schema with a name is described once. */
class Components {
  readonly #definitions: Record<string, JsonSchema.JsonSchema> = {}

  add(schema: Schema.Top, side: Side): JsonSchema.JsonSchema {
    const { schema: json, named } = describe(schema, side)
    Object.assign(this.#definitions, named)
    return json
  }

  get schemas(): Readonly<Record<string, JsonSchema.JsonSchema>> {
    return Object.fromEntries(Object.entries(this.#definitions).sort(([a], [b]) => (a < b ? -1 : 1)))
  }
}

const descriptionOf = (schema: JsonSchema.JsonSchema): { readonly description?: string } => {
  const { description } = schema
  return typeof description === "string" ? { description } : {}
}

const parametersOf = (route: Route, components: Components): ReadonlyArray<OpenApiParameter> => {
  const found: Array<OpenApiParameter> = []
  if (route.path.includes("{id}")) {
    const schema = { type: "string", minLength: 1, maxLength: 255 }
    found.push({ name: "id", in: "path", required: true, description: route.idDescription ?? "Id of the job", schema })
  }
  if (route.path.includes("{board}")) {
    const schema = { type: "string", pattern: "^[A-Za-z0-9_-]{1,64}$" }
    found.push({ name: "board", in: "path", required: true, description: "Name of the job board", schema })
  }
  if (route.path.includes("{name}")) {
    const schema = { type: "string", minLength: 1, maxLength: 128 }
    found.push({ name: "name", in: "path", required: true, description: "Name of the signal", schema })
  }
  for (const [name, { schema, form }] of Object.entries(route.query ?? {})) {
    const json = components.add(schema, "request")
    found.push({
      name,
      in: "query",
      required: false,
      ...descriptionOf(json),
      schema: json,
      ...(form === "list" ? { style: "form", explode: false } : {}),
    })
  }
  for (const [name, { description, example }] of Object.entries(route.headers ?? {})) {
    found.push({ name, in: "header", required: false, description, schema: { type: "string", examples: [example] } })
  }
  return found
}

const responseOf = (response: RouteResponse, components: Components): OpenApiResponse => {
  const { description, schema, alternative, contentType = "application/json", headers = {} } = response
  const forms = [schema, alternative].flatMap((each) => (each === undefined ? [] : [components.add(each, "response")]))
  const shown = forms.length > 1 ? { anyOf: forms } : forms[0]
  const described = Object.entries(headers).map(
    ([name, text]) => [name, { description: text, schema: { type: "string" } }] as const,
  )
  return {
    description,
    ...(described.length === 0 ? {} : { headers: Object.fromEntries(described) }),
    ...(shown === undefined ? {} : { content: { [contentType]: { schema: shown } } }),
  }
}

/** The problems of a route, one response per status. */
const problemResponsesOf = (route: Route, components: Components): Readonly<Record<string, OpenApiResponse>> => {
  const problem = components.add(Problem, "response")
  const byStatus = new Map<number, Array<string>>()
  for (const code of problemsOf(route)) {
    const { status } = PROBLEMS[code]
    byStatus.set(status, [...(byStatus.get(status) ?? []), code])
  }
  const responses: Record<string, OpenApiResponse> = {}
  for (const [status, codes] of byStatus) {
    responses[status] = {
      description: codes.map((code) => `\`${code}\``).join(", "),
      content: {
        "application/problem+json": {
          schema: { allOf: [problem, { properties: { code: { enum: codes } } }] },
        },
      },
    }
  }
  return responses
}

const operationOf = (route: Route, components: Components, hasTokens: boolean): Operation => {
  const content = Object.entries(route.body ?? {}).map(
    ([type, schema]) => [type, { schema: components.add(schema, "request") }] as const,
  )
  const needsToken = hasTokens && route.scope !== undefined
  const scopes = scopesOf(route)
  const named = scopes.map((each) => `\`${each}\``).join(" and ")
  const holder = route.link ? " A link to the job that has it is accepted." : ""
  const needed = scopes.length === 0 ? "Any token is accepted." : `Scope: ${named}.${holder}`
  const scope = route.scope === undefined ? "Needs no token." : needed
  return {
    operationId: route.operation,
    tags: [route.group],
    summary: route.summary,
    description: route.description === undefined ? scope : `${route.description}\n\n${scope}`,
    parameters: parametersOf(route, components),
    ...(content.length === 0
      ? {}
      : { requestBody: { required: !route.isBodyOptional, content: Object.fromEntries(content) } }),
    responses: {
      ...Object.fromEntries(
        route.responses.map((response) => [String(response.status), responseOf(response, components)]),
      ),
      ...problemResponsesOf(route, components),
    },
    security: [...(route.scope === undefined ? [] : [{ token: scopes }]), ...(needsToken ? [] : [{}])],
  }
}

/** Describes routes as they are served under `base`. */
export const openApiOf = (routes: ReadonlyArray<Route>, base: string, hasTokens: boolean): OpenApi => {
  const components = new Components()
  const paths: Record<string, Record<string, Operation>> = {}
  for (const route of routes) {
    const operations = paths[route.path] ?? {}
    paths[route.path] = operations
    operations[route.method.toLowerCase()] = operationOf(route, components, hasTokens)
  }
  return {
    openapi: "3.1.0",
    info: { title: "Callboard", version: VERSION, description: DESCRIPTION },
    servers: [{ url: base === "" ? "/" : base }],
    tags: [...new Set(routes.map(({ group }) => group))].map((name) => ({ name })),
    paths,
    components: {
      schemas: components.schemas,
      securitySchemes: {
        token: { type: "http", scheme: "bearer", description: "Required if `http.tokens` is set" },
      },
    },
  }
}
