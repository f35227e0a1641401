/** Routes that describe the interface: the OpenAPI document, and the same for people. */
import { Schema } from "effect"
import { answer } from "./answer.ts"
import { REFERENCE_HEADERS, referenceOf } from "./reference.ts"
import { type Route, route } from "./route.ts"

export const descriptionRoutes: ReadonlyArray<Route> = [
  route({
    method: "GET",
    path: "/openapi.json",
    operation: "getOpenApi",
    group: "Description",
    summary: "This interface as an OpenAPI 3.1 document",
    answers: [
      {
        status: 200,
        description: "The document",
        schema: Schema.Record(Schema.String, Schema.Unknown).annotate({ identifier: "OpenApi" }),
      },
    ],
    handle: ({ desk, base }) => answer(desk.describe(base)),
  }),
  route({
    method: "GET",
    path: "/",
    operation: "getReference",
    group: "Description",
    summary: "This interface for people",
    answers: [{ status: 200, description: "A page", schema: Schema.String, contentType: "text/html" }],
    handle: async ({ c, desk, base }) =>
      new Response(await referenceOf(desk.describe(base), `${new URL(c.req.url).origin}${base}`), {
        headers: REFERENCE_HEADERS,
      }),
  }),
]
