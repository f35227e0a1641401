/** Routes that are served: each is a description and its handler. */
import type * as JsonSchema from "effect/JsonSchema"
import * as Result from "effect/Result"
import * as Struct from "effect/Struct"
import type { Context } from "hono"
import type { Client } from "../client/client.ts"
import type { Scope } from "../config/scopes.ts"
import { CallboardError, type ErrorCode } from "../errors.ts"
import type { Log } from "../log/log.ts"
import type { MetricsText } from "../metrics/metrics.ts"
import { isId, MAX_ID_BYTES } from "../protocol/name.ts"
import type { Address, AnswerOf, Description, Descriptions, HttpMethod, ParametersOf } from "../routes/description.ts"
import type { Parameters, Values } from "../routes/parameter.ts"
import type { Caller } from "./access.ts"
import type { Budget, HeldBody } from "./limits.ts"
import { queryParserOf } from "./query.ts"
import { refuseBody } from "./request-body.ts"
import { json } from "./response.ts"

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
  /** Signs links to jobs; `undefined` if there are none. */
  readonly linkSecret: string | undefined
  /** Fires when the service stops: waits and streams end. */
  readonly closing: AbortSignal
  /** What this application can do: the first word of each path under `/v1`. */
  readonly features: ReadonlyArray<string>
  /** The description of this application as it is mounted under `base`. */
  readonly describe: (base: string) => OpenApi
}

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

/** A route that can be served: its description, and what `serve` does with the parsed query and id of a request. */
export interface Route extends Description {
  readonly method: HttpMethod
  readonly path: string
  readonly serve: (c: Context, context: HttpContext, caller: Caller) => Promise<Response>
}

type Handler<P extends Parameters, A> = (request: RouteRequest<P>) => A | Response | Promise<A | Response>

/**
 * What answers the requests of each route: with a value, which is sent as JSON with the first described status, with
 * `undefined` for an answer without a body, or with a response.
 */
export type Handlers<D extends Descriptions> = {
  readonly [A in keyof D]: Handler<ParametersOf<D[A]>, AnswerOf<D[A]>>
}

const METHODS: ReadonlyArray<HttpMethod> = ["GET", "POST", "PATCH", "DELETE"]

/** The described routes, in their order, with their handlers. */
export const served = <const D extends Descriptions>(descriptions: D, handlers: Handlers<D>): ReadonlyArray<Route> => {
  const described: Descriptions = descriptions
  // A handler gets the values of the parameters that its own description has.
  const handled = handlers as Handlers<Descriptions>
  return Struct.keys(described).flatMap((address) => {
    const [description, handle] = [described[address], handled[address]]
    return description === undefined || handle === undefined ? [] : [routeOf(address, description, handle)]
  })
}

const routeOf = (address: Address, description: Description, handle: Handler<Parameters, unknown>): Route => {
  const [, path = ""] = address.split(" ")
  const method = METHODS.find((each) => address.startsWith(`${each} `)) ?? "GET"
  const { query: parameters = {}, call = address } = description
  const parseQuery = queryParserOf<Parameters>(parameters, call)
  const status = description.responses[0]?.status
  const respond = async (request: RouteRequest<Parameters>): Promise<Response> => {
    if (method !== "GET" && description.body === undefined) await refuseBody(request, address)
    const answer = await handle(request)
    if (answer instanceof Response) return answer
    return answer === undefined ? new Response(null, { status: 204 }) : json(answer, status)
  }
  const hasId = path.includes("{id}")
  const pattern = basePattern(path)
  return {
    ...description,
    method,
    path,
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
      const base = path === "/" ? url.pathname.replace(/\/$/, "") : (pattern.exec(url.pathname)?.[1] ?? "")
      const held = context.budget.body()
      const board = c.req.param("board") ?? ""
      const request = { c, context, caller, held, id, board, query: query.success, base }
      return method === "GET" ? respond(request) : releasing(held, decided(description, context, respond(request)))
    },
  }
}

/**
 * After a change the statistics are read again, so that the next answer contains it. Submissions are too frequent for
 * that, and a route with the scope `read` changes nothing.
 */
const decided = async ({ scope }: Description, context: HttpContext, handled: Promise<Response>): Promise<Response> => {
  const answer = await handled
  if (scope !== "submit" && scope !== "read") await context.client.statistics.forget()
  return answer
}

const releasing = async (held: HeldBody, answer: Promise<Response>): Promise<Response> => {
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
  if (route.method !== "GET") codes.add("overloaded")
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
  readonly requestBody?: { readonly required: boolean; readonly content: Content }
  readonly responses: Readonly<Record<string, OpenApiResponse>>
  readonly security: ReadonlyArray<Readonly<Record<string, ReadonlyArray<string>>>>
}

export interface OpenApiParameter {
  readonly name: string
  readonly in: "path" | "query" | "header"
  readonly required: boolean
  readonly description?: string
  readonly schema: JsonSchema.JsonSchema
  /** Lists in a query are described with commas between the values; a repeated parameter is taken as well. */
  readonly style?: "form"
  readonly explode?: false
}

export interface OpenApiResponse {
  readonly description: string
  readonly headers?: Readonly<Record<string, { readonly description: string; readonly schema: JsonSchema.JsonSchema }>>
  readonly content?: Content
}

type Content = Readonly<Record<string, { readonly schema: JsonSchema.JsonSchema }>>
