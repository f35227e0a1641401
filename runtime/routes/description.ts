/**
 * The description of a route: the server, the OpenAPI document, the reference page and the clients over HTTP are made of
 * it. A client needs the types alone, since the address of a route is all that it has to know while it runs.
 */
import type * as Schema from "effect/Schema"
import type { Scope } from "../config/scopes.ts"
import type { ErrorCode } from "../errors.ts"
import type { Given } from "../options/check.ts"
import type { Parameters, Values } from "./parameter.ts"

export type HttpMethod = "GET" | "POST" | "PATCH" | "DELETE"

/** Method and path, as OpenAPI writes it: `GET /v1/jobs/{id}`. */
export type Address = `${HttpMethod} /${string}`

/** A response that a route can give. */
export interface RouteResponse {
  readonly status: number
  readonly description: string
  /** Absent: no body. */
  readonly schema?: Schema.Top
  /** The other form that the body has if a parameter asks for it. */
  readonly alternative?: Schema.Top
  /** Defaults to `application/json`. */
  readonly contentType?: string
  readonly headers?: Readonly<Record<string, string>>
}

interface HeaderParameter {
  readonly description: string
  readonly example: string
}

export interface Description {
  /** Name of the operation, for generated clients. */
  readonly operation: string
  readonly group: string
  readonly summary: string
  readonly description?: string
  /** The scope that a token must have; `any`: each token will do. Absent on routes that need no token. */
  readonly scope?: Scope | "any"
  /**
   * A link to the job of the path may use it; its handler shows such a caller only the fields that links show. Defaults to no,
   * so that a new route reveals nothing to the holders of links.
   */
  readonly link?: true
  /** The answers show inputs or results of jobs: the token must have the scope `payload` as well. */
  readonly showsPayload?: true
  /** What the `{id}` of the path is. Defaults to the id of a job. */
  readonly idDescription?: string
  readonly query?: Parameters
  /** The call in code that does the same, by which an unknown parameter is refused: `cancel()`. Defaults to the address. */
  readonly call?: string
  readonly headers?: Readonly<Record<string, HeaderParameter>>
  /** Schema of the body, by content type. */
  readonly body?: Readonly<Record<string, Schema.Top>>
  /** The body may be empty: all of its fields are optional. */
  readonly isBodyOptional?: true
  readonly responses: ReadonlyArray<RouteResponse>
  /** Error codes of this route, besides those of every route of its kind. */
  readonly problems?: ReadonlyArray<ErrorCode>
}

export type Descriptions = Readonly<Record<Address, Description>>

/** The parameters of the query of a route. */
export type ParametersOf<D> = D extends { readonly query: infer P extends Parameters } ? P : Record<never, never>

/** The values of the query of a route. */
export type QueryOf<D> = Values<ParametersOf<D>>

/** The body of a request, as it is before it becomes JSON. */
export type BodyOf<D> = D extends { readonly body: Readonly<Record<"application/json", infer S extends Schema.Top>> }
  ? Given<S["Encoded"]>
  : undefined

type AnswerIn<R> = R extends { readonly schema: infer S extends Schema.Top } ? S["Type"] : undefined

/** What a route answers with if it succeeds; `undefined`: the answer has no body. */
export type AnswerOf<D> = D extends { readonly responses: infer R extends ReadonlyArray<unknown> }
  ? AnswerIn<Exclude<R[number], { readonly status: 304 }>>
  : never
