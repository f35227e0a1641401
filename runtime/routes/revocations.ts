/** Routes about revocations: tasks that are cancelled by a header. */
import * as Schema from "effect/Schema"
import { Revocation, RevokeOptions } from "../cluster/revocation.ts"
import type { Descriptions } from "./description.ts"

const RevocationList = Schema.Struct({ revocations: Schema.Array(Revocation) }).annotate({
  identifier: "RevocationList",
})

export const REVOCATION_ROUTES = {
  "POST /v1/revocations": {
    operation: "revoke",
    group: "Revocations",
    summary: "Cancel all tasks whose header has one of the given values",
    description:
      "It applies until it expires or is deleted, including to tasks and workers that arrive later. Waiting tasks end when a worker takes them, running ones at once.",
    scope: "admin",
    body: { "application/json": RevokeOptions },
    responses: [{ status: 201, description: "The revocation", schema: Revocation }],
    problems: ["invalid-input", "invalid-json", "unsupported-content-type", "too-large", "unsupported"],
  },
  "GET /v1/revocations": {
    operation: "listRevocations",
    group: "Revocations",
    summary: "Active revocations, oldest first",
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
    description: "Jobs that it has cancelled stay cancelled.",
    scope: "admin",
    responses: [{ status: 204, description: "The revocation has ended" }],
  },
} as const satisfies Descriptions
