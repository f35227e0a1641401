/** Routes about the limits of methods. */
import * as Schema from "effect/Schema"
import { LimitKeys, LimitList } from "../statistics/schema.ts"
import { DEFAULT_PAGE, MAX_PAGE } from "./bounds.ts"
import type { Descriptions } from "./description.ts"
import { integer, text } from "./parameter.ts"

/** Most limits and tenants, and most workers that hold permits, that one request reads. */
export const MAX_KEYS = 1_000

const Cursor = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(255))

export const LIMIT_ROUTES = {
  "GET /v1/limits": {
    operation: "listLimits",
    group: "Statistics",
    summary: "Limits of methods across all workers, the ones with the most waiting jobs first",
    description: `Reads up to ${MAX_KEYS} values of keys.`,
    scope: "read",
    responses: [{ status: 200, description: "The limits", schema: LimitList }],
  },
  "GET /v1/limits/{id}/keys": {
    idDescription: "Task: `actor.method`",
    operation: "listLimitKeys",
    group: "Statistics",
    summary: "The values of the key of a limit, each with its own limit",
    description:
      "There is a single page if the key comes from a value that the method hides with `redact`, or is made by a function in such a method.",
    scope: "read",
    // The values are taken from the input of jobs.
    showsPayload: true,
    query: {
      limit: integer(
        Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_PAGE })).annotate({
          description: "Maximum number on a page",
          default: DEFAULT_PAGE,
        }),
      ),
      cursor: text(Cursor.annotate({ description: "Where to continue: the `next` of the previous page" })),
    },
    responses: [{ status: 200, description: "A page of values", schema: LimitKeys }],
  },
} as const satisfies Descriptions
