/**
 * A route as data: what the application serves, the OpenAPI document describes and the reference page shows is one
 * definition.
 */

import type * as JsonSchema from "effect/JsonSchema"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type { Context } from "hono"
import type { Client } from "../client/client.ts"
import type { Scope } from "../config/scopes.ts"
import { CallboardError, type ErrorCode } from "../errors.ts"
import type { Log } from "../log/log.ts"
import type { MetricsText } from "../metrics/metrics.ts"
import { isId, MAX_ID_BYTES } from "../protocol/name.ts"
import type { Caller } from "./access.ts"
import type { Budget, HeldBody } from "./limits.ts"
import { type Parameters, queryParserOf, type Values } from "./parameter.ts"

/** What all handlers of one application share. */
export interface HttpContext {
  readonly client: Client
  readonly log: Log
  /** Largest task, in bytes. */
  readonly maxBody: number
  readonly keepAliveMs: number
  /** What requests hold at a time. */
  readonly budget: Budget
  /** Why this process is not ready, for people; `undefined` while it consumes and its transport is within reach. */
  readonly unready: () => string | undefined | Promise<string | undefined>
  /** Why the transport is out of reach; `undefined` while it is within reach. */
  readonly outage: () => string | undefined
  /** What `/metrics` answers with; `undefined` where metrics are off. */
  readonly metrics: MetricsText | undefined
  /** Fires when the service stops: waits and streams end. */
  readonly closing: AbortSignal
  /** What this application can do: the first word of each path under `/v1`. */
  readonly features: ReadonlyArray<string>
  /** The description of this application as it is mounted under `base`. */
  readonly describe: (base: string) => OpenApi
}

type Method = "GET" | "POST" | "PATCH" | "DELETE"

/** What a handler is called with. */
export interface RouteRequest<P extends Parameters = Parameters> {
  readonly c: Context
  readonly context: HttpContext
  readonly caller: Caller
  /** What the request's body holds, until it is answered. */
  readonly held: HeldBody
  /** The `{id}` of the path; empty on routes without one. */
  readonly id: string
  /** The `{board}` of the path; empty on routes without one. */
  readonly board: string
  readonly query: Values<P>
  /** Path under which the application is mounted; empty at the root. */
  readonly base: string
}

/** A response that a route can give, for the description. */
export interface RouteResponse {
  readonly status: number
  readonly description: string
  /** Absent: no body. */
  readonly schema?: Schema.Top
  /** Defaults to `application/json`. */
  readonly contentType?: string
  readonly headers?: Readonly<Record<string, string>>
}

interface HeaderParameter {
  readonly description: string
  readonly example: string
}

export interface Definition<P extends Parameters> {
  readonly method: Method
  /** As OpenAPI writes it: `/v1/jobs/{id}`. */
  readonly path: string
  /** Name of the operation, for generated clients. */
  readonly operation: string
  readonly group: string
  readonly summary: string
  readonly description?: string
  /** The scope that a token must have; `any`: each token will do. Absent on routes that need no token. */
  readonly scope?: Scope | "any"
  /** The answers show inputs or results of jobs: the token must have the scope `payload` as well. */
  readonly showsPayload?: true
  /** What the `{id}` of the path is. Defaults to the id of a job. */
  readonly idDescription?: string
  readonly query?: P
  /** The call in code that does the same, by which a parameter that does not exist is refused: `cancel()`. Defaults to method and path. */
  readonly call?: string
  readonly headers?: Readonly<Record<string, HeaderParameter>>
  /** Schema of the body, by content type. */
  readonly body?: Readonly<Record<string, Schema.Top>>
  readonly responses: ReadonlyArray<RouteResponse>
  /** Error codes of this route, besides those that {@link problemsOf} adds to every route of its kind. */
  readonly problems?: ReadonlyArray<ErrorCode>
  readonly handle: (request: RouteRequest<P>) => Response | Promise<Response>
}

/** A route whose handler is wrapped: `serve` parses query and id, and calls the handler with their values. */
export interface Route extends Omit<Definition<Parameters>, "handle" | "call"> {
  readonly serve: (c: Context, context: HttpContext, caller: Caller) => Response | Promise<Response>
}

export const route = <const P extends Parameters = Record<never, never>>(definition: Definition<P>): Route => {
  const { handle, call, ...described } = definition
  const parseQuery = queryParserOf<Parameters>(
    definition.query ?? {},
    call ?? `${definition.method} ${definition.path}`,
  )
  const hasId = definition.path.includes("{id}")
  const pattern = basePattern(definition.path)
  return {
    ...described,
    serve: (c, context, caller) => {
      const url = new URL(c.req.url)
      const query = parseQuery(url.searchParams)
      if (Result.isFailure(query)) throw query.failure
      const id = hasId ? (c.req.param("id") ?? "") : ""
      if (hasId && !isId(id)) {
        throw new CallboardError("invalid-input", `id: must be well-formed text of 1 to ${MAX_ID_BYTES} bytes`, {
          field: "id",
        })
      }
      // Where the application is mounted, the path of its root has no slash at the end.
      const base = definition.path === "/" ? url.pathname.replace(/\/$/, "") : (pattern.exec(url.pathname)?.[1] ?? "")
      // The parser was made of the parameters of this definition.
      const held = context.budget.body()
      const board = c.req.param("board") ?? ""
      const request = { c, context, caller, held, id, board, query: query.success as Values<P>, base }
      return definition.method === "GET" ? handle(request) : releasing(held, decided(definition, request))
    },
  }
}

/**
 * After a change the statistics are read again, so that the next answer contains it. Submissions are too frequent for
 * that.
 */
const decided = async <P extends Parameters>(
  { handle, scope }: Pick<Definition<P>, "handle" | "scope">,
  request: RouteRequest<P>,
): Promise<Response> => {
  const answer = await handle(request)
  if (scope !== "submit") await request.context.client.statistics.forget()
  return answer
}

const releasing = async (held: HeldBody, answer: Response | Promise<Response>): Promise<Response> => {
  try {
    return await answer
  } finally {
    held.release()
  }
}

/** Matches a URL path; its group is the part before the route's own path, where the application is mounted. */
const basePattern = (path: string): RegExp =>
  new RegExp(`^(.*)${path.replaceAll(/[.*+?^$()[\]\\|]/g, "\\$&").replaceAll(/\{\w+\}/g, "[^/]+")}$`)

/** The scopes that a token must have, all of them. */
export const scopesOf = ({ scope, showsPayload }: Pick<Route, "scope" | "showsPayload">): ReadonlyArray<Scope> => {
  if (scope === undefined || scope === "any") return []
  return showsPayload ? [scope, "payload"] : [scope]
}

/** The codes that a route can answer with. */
export const problemsOf = (route: Route): ReadonlyArray<ErrorCode> => {
  const codes = new Set<ErrorCode>(route.problems)
  if (route.scope !== undefined) {
    codes.add("unauthorized").add("transport-unavailable")
  }
  if (route.body !== undefined) codes.add("overloaded")
  codes.add("forbidden").add("internal").add("unknown-field")
  if (route.query !== undefined || /\{(?:id|board)\}/.test(route.path)) codes.add("invalid-input")
  if (route.path.includes("{id}")) codes.add("not-found")
  return [...codes].sort()
}

/** The part of OpenAPI 3.1 that the document uses. */
export interface OpenApi {
  readonly openapi: "3.1.0"
  readonly info: { readonly title: string; readonly version: string; readonly description: string }
  readonly servers: ReadonlyArray<{ readonly url: string }>
  readonly tags: ReadonlyArray<{ readonly name: string }>
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: {
    readonly schemas: Readonly<Record<string, JsonSchema.JsonSchema>>
    readonly securitySchemes: Readonly<Record<string, unknown>>
  }
}

export interface Operation {
  readonly operationId: string
  readonly tags: ReadonlyArray<string>
  readonly summary: string
  readonly description: string
  readonly parameters: ReadonlyArray<OpenApiParameter>
  readonly requestBody?: { readonly required: true; readonly content: Content }
  readonly responses: Readonly<Record<string, OpenApiResponse>>
  readonly security: ReadonlyArray<Readonly<Record<string, ReadonlyArray<string>>>>
}

export interface OpenApiParameter {
  readonly name: string
  readonly in: "path" | "query" | "header"
  readonly required: boolean
  readonly description?: string
  readonly schema: JsonSchema.JsonSchema
  /** Lists in a query are written with commas. */
  readonly style?: "form"
  readonly explode?: false
}

export interface OpenApiResponse {
  readonly description: string
  readonly headers?: Readonly<Record<string, { readonly description: string; readonly schema: JsonSchema.JsonSchema }>>
  readonly content?: Content
}

type Content = Readonly<Record<string, { readonly schema: JsonSchema.JsonSchema }>>
