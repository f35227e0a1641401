/** Routes about revocations: tasks that are cancelled by a header. */
import * as Schema from "effect/Schema"
import { Revocation, RevokeOptions } from "../cluster/revocation.ts"
import type { Descriptions } from "./description.ts"

export const RevocationList = Schema.Struct({ revocations: Schema.Array(Revocation) }).annotate({
  identifier: "RevocationList",
})

export const REVOCATION_ROUTES = {
  "POST /v1/revocations": {
    operation: "revoke",
    group: "Revocations",
    summary: "Cancel every task that carries a header with one of some values",
    description:
      "Holds until it lapses or is lifted, also for tasks that come later and workers that start later. Waiting tasks end when their turn comes, running ones at once.",
    scope: "admin",
    body: { "application/json": RevokeOptions },
    responses: [{ status: 201, description: "The revocation", schema: Revocation }],
    problems: ["invalid-input", "invalid-json", "unsupported-content-type", "too-large", "unsupported"],
  },
  "GET /v1/revocations": {
    operation: "listRevocations",
    group: "Revocations",
    summary: "Revocations that hold now, oldest first",
    scope: "read",
    // Revocations name values of headers that tasks carry.
    showsPayload: true,
    responses: [{ status: 200, description: "The revocations", schema: RevocationList }],
  },
  "DELETE /v1/revocations/{id}": {
    idDescription: "Id of the revocation",
    operation: "liftRevocation",
    group: "Revocations",
    summary: "End a revocation",
    description: "What it has cancelled stays cancelled.",
    scope: "admin",
    responses: [{ status: 204, description: "It is ended" }],
  },
} as const satisfies Descriptions
