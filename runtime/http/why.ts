/** The route that says why a job waits. */
import { transportDown } from "../jobs/why/ask.ts"
import { Why } from "../jobs/why/cause.ts"
import { answer } from "./answer.ts"
import { type Route, route } from "./route.ts"

export const whyRoutes: ReadonlyArray<Route> = [
  route({
    method: "GET",
    path: "/v1/jobs/{id}/why",
    operation: "getWhy",
    group: "Jobs",
    summary: "Why a job does not run",
    description:
      "The first cause is the true one; what else would hold it up follows. Also `200` while the transport cannot be reached: that is the cause then.",
    scope: "read",
    answers: [{ status: 200, description: "The causes", schema: Why }],
    problems: ["gone"],
    handle: async ({ desk, id }) => {
      const lost = desk.lost()
      return answer<typeof Why.Type>(lost === undefined ? await desk.client.why(id) : transportDown(id, lost))
    },
  }),
]
