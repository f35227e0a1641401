/** Routes that describe the interface: the OpenAPI document, and the same for people. */
import * as Schema from "effect/Schema"
import type { Descriptions } from "./description.ts"

export const DESCRIPTION_ROUTES = {
  "GET /openapi.json": {
    operation: "getOpenApi",
    group: "Description",
    summary: "This API as an OpenAPI 3.1 document",
    responses: [
      {
        status: 200,
        description: "The document",
        schema: Schema.Record(Schema.String, Schema.Unknown).annotate({ identifier: "OpenApi" }),
      },
    ],
  },
  "GET /reference": {
    operation: "getReference",
    group: "Description",
    summary: "The reference of this API, for people",
    responses: [{ status: 200, description: "A page", schema: Schema.String, contentType: "text/html" }],
  },
  "GET /": {
    operation: "getText",
    group: "Description",
    summary: "The routes of this API as text; browsers get the dashboard",
    responses: [{ status: 200, description: "The routes", schema: Schema.String, contentType: "text/plain" }],
  },
} as const satisfies Descriptions
