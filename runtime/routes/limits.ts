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
    summary: "Limits of methods over all workers, those first for which most waits",
    description: `Looks at up to ${MAX_KEYS} values of keys.`,
    scope: "read",
    responses: [{ status: 200, description: "The limits", schema: LimitList }],
  },
  "GET /v1/limits/{id}/keys": {
    idDescription: "Task: `actor.method`",
    operation: "listLimitKeys",
    group: "Statistics",
    summary: "The values of the key of a limit, each with a limit of its own",
    description:
      "Of a key that is taken from what the method hides by `redact`, or made by a function beside that, there is one page.",
    scope: "read",
    // The values are taken from the input of jobs.
    showsPayload: true,
    query: {
      limit: integer(
        Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_PAGE })).annotate({
          description: "Most on a page",
          default: DEFAULT_PAGE,
        }),
      ),
      cursor: text(Cursor.annotate({ description: "Where to go on: the `next` of the page before" })),
    },
    responses: [{ status: 200, description: "A page of values", schema: LimitKeys }],
  },
} as const satisfies Descriptions
