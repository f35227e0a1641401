/** Routes about revocations by header. */
import { Schema } from "effect"
import { parseRevoke, Revocation, RevokeOptions } from "../cluster/revocation.ts"
import { answer } from "./answer.ts"
import { reading } from "./deadline.ts"
import { readBody } from "./request-body.ts"
import { type Route, route } from "./route.ts"

const RevocationList = Schema.Struct({ revocations: Schema.Array(Revocation) }).annotate({
  identifier: "RevocationList",
})

export const revocationRoutes: ReadonlyArray<Route> = [
  route({
    method: "POST",
    path: "/v1/revocations",
    operation: "revoke",
    group: "Revocations",
    summary: "Cancel every task that carries a header with one of some values",
    description:
      "Holds until it lapses or is lifted, also for tasks that come later and workers that start later. Waiting tasks end when their turn comes, running ones at once.",
    scope: "admin",
    body: { "application/json": RevokeOptions },
    answers: [{ status: 201, description: "The revocation", schema: Revocation }],
    problems: ["invalid-input", "invalid-json", "unsupported-content-type", "too-large", "unsupported"],
    handle: async ({ c, desk }) => {
      const { value } = await readBody(c.req.raw, { one: desk.maxBody, many: desk.maxBody })
      return answer<typeof Revocation.Type>(await desk.client.revoke(parseRevoke(value)), 201)
    },
  }),
  route({
    method: "GET",
    path: "/v1/revocations",
    operation: "listRevocations",
    group: "Revocations",
    summary: "Revocations that hold now, oldest first",
    scope: "read",
    answers: [{ status: 200, description: "The revocations", schema: RevocationList }],
    handle: async ({ desk }) =>
      answer<typeof RevocationList.Type>({ revocations: await reading(desk.client.revocations()) }),
  }),
  route({
    method: "DELETE",
    path: "/v1/revocations/{id}",
    idIs: "Id of the revocation",
    operation: "liftRevocation",
    group: "Revocations",
    summary: "End a revocation",
    description: "What it has cancelled stays cancelled.",
    scope: "admin",
    answers: [{ status: 204, description: "It is ended" }],
    handle: async ({ desk, id }) => {
      await desk.client.lift(id)
      return new Response(null, { status: 204 })
    },
  }),
]
