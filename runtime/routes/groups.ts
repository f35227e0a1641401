/** Routes about groups: the jobs that were submitted with the same `group`, or as members of one chord. */
import * as Schema from "effect/Schema"
import { MAX_GROUPS } from "../jobs/groups.ts"
import { BulkReport, Group, GroupList } from "../jobs/lists.ts"
import { pageLimit } from "./bounds.ts"
import { bounded, partly } from "./decisions.ts"
import type { Descriptions } from "./description.ts"
import { integer, text } from "./parameter.ts"

const page = {
  limit: integer(pageLimit("Maximum number of groups to read", MAX_GROUPS)),
  cursor: text(
    Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(255)).annotate({
      description: "Where to continue: the `next` of the previous page",
    }),
  ),
}

export const GROUP_ROUTES = {
  "GET /v1/groups": {
    operation: "listGroups",
    group: "Jobs",
    summary: "Groups that have jobs, by name",
    scope: "read",
    query: page,
    responses: [{ status: 200, description: "A page of groups", schema: GroupList }],
  },
  "GET /v1/groups/{id}": {
    idDescription: "Name of the group",
    operation: "getGroup",
    group: "Jobs",
    summary: "Number of jobs of a group, by state",
    description: "Its jobs: `GET /v1/jobs?group=…`. A group exists as long as one of its jobs is kept.",
    scope: "read",
    responses: [{ status: 200, description: "The group", schema: Group }],
  },
  "POST /v1/groups/{id}/cancel": {
    idDescription: "Name of the group",
    operation: "cancelGroup",
    group: "Jobs",
    summary: "Cancel the jobs of a group",
    description:
      "Cancels up to 1,000 of its jobs that have not ended, and the body that waits for them. While the response is 202, call again.",
    scope: "operate",
    query: bounded,
    responses: [
      { status: 200, description: "The changed jobs; none are left", schema: BulkReport },
      partly(BulkReport),
    ],
  },
} as const satisfies Descriptions
