import type * as JsonSchema from "effect/JsonSchema"

/** As much of OpenAPI 3.1 as is written here. */
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

export type Content = Readonly<Record<string, { readonly schema: JsonSchema.JsonSchema }>>
