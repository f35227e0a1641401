/** Routes about dead letters: tasks that were given up without the application having decided so. */

import { CallboardError } from "../errors.ts"
import { Job } from "../jobs/answers.ts"
import { rerunJob } from "../jobs/commands/rerun.ts"
import { jobView } from "../jobs/view.ts"
import { answer } from "./answer.ts"
import { reading } from "./deadline.ts"
import { narrow, page, queryOf, withCursor } from "./filter.ts"
import { BULK, bulkAnswer, LIST, listAnswer } from "./jobs.ts"
import { type Route, route } from "./route.ts"
import { recordOf } from "./waiting.ts"

export const deadRoutes: ReadonlyArray<Route> = [
  route({
    method: "GET",
    path: "/v1/dead",
    operation: "listDead",
    group: "Dead letters",
    summary: "Dead letters, newest first",
    description: "Tasks that nobody serves, that cannot be decoded, or that end their worker: `dead` says why.",
    scope: "read",
    query: { ...narrow, ...page },
    answers: [LIST],
    handle: async ({ desk, query }) =>
      listAnswer(await reading(withCursor({ ...queryOf(query), dead: true }, (wanted) => desk.client.jobs(wanted)))),
  }),
  route({
    method: "POST",
    path: "/v1/dead/{id}/redrive",
    operation: "redriveJob",
    group: "Dead letters",
    summary: "Run a dead letter again",
    scope: "admin",
    answers: [{ status: 200, description: "The job", schema: Job }],
    problems: ["job-exists", "gone", "unsupported"],
    handle: async ({ desk, id }) => {
      const record = await recordOf(desk, id)
      if (record.dead === undefined) {
        throw new CallboardError("not-found", `job ${id} is ${record.state}, and no dead letter`, { id })
      }
      return answer<typeof Job.Type>(jobView(await rerunJob(desk.client.connection, id)))
    },
  }),
  route({
    method: "POST",
    path: "/v1/dead/redrive",
    operation: "redriveJobs",
    group: "Dead letters",
    summary: "Run many dead letters again",
    description:
      "Runs up to `limit` dead letters that match again; without a filter, all of them. While `more` is true, call again with `cursor`.",
    scope: "admin",
    query: { ...narrow, ...page },
    answers: [BULK],
    handle: async ({ desk, query }) =>
      bulkAnswer(await withCursor({ ...queryOf(query), dead: true }, (wanted) => desk.client.retryAll(wanted))),
  }),
]
