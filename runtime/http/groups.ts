/** Routes about groups: the jobs that were submitted with the same `group`, or as members of one chord. */
import { cancelGroup, findGroup, listGroups } from "../jobs/groups.ts"
import { compact } from "../protocol/compact.ts"
import { DEFAULT_PAGE } from "../routes/bounds.ts"
import { GROUP_ROUTES } from "../routes/groups.ts"
import { budgetOf, reported } from "./decisions.ts"
import { withReadDeadline } from "./limits.ts"
import { type Route, served } from "./route.ts"

export const groupRoutes: ReadonlyArray<Route> = served(GROUP_ROUTES, {
  "GET /v1/groups": async ({ context, query: { limit = DEFAULT_PAGE, cursor } }) => {
    const { connection } = context.client
    const after = compact({ after: cursor })
    return withReadDeadline(listGroups(connection, { limit, ...after }))
  },
  "GET /v1/groups/{id}": async ({ context, id }) => withReadDeadline(findGroup(context.client.connection, id)),
  "POST /v1/groups/{id}/cancel": async ({ context, id, query }) =>
    reported(await cancelGroup(context.client.connection, id, budgetOf(query.budget) * 1_000)),
})
