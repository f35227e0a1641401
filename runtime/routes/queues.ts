/** Routes that control queues: pause, purge, delete, and what waits in them. */
import * as Schema from "effect/Schema"
import { WaitingJobs } from "../jobs/lists.ts"
import { PartlyDone } from "../jobs/responses.ts"
import { bounded, partly } from "./decisions.ts"
import type { Descriptions } from "./description.ts"
import { boolean, integer } from "./parameter.ts"

export const Purged = Schema.Struct({
  purged: Schema.Int.annotate({ description: "How many tasks were taken off the queue" }),
  partial: Schema.optionalKey(PartlyDone),
}).annotate({ identifier: "Purged" })

export const emptying = {
  forget: boolean(Schema.Boolean.annotate({ description: "Forget the jobs as well" })),
  ...bounded,
}

export const QUEUE_ROUTES = {
  "POST /v1/queues/{id}/pause": {
    idDescription: "Name of the queue",
    operation: "pauseQueue",
    group: "Service",
    summary: "Let a queue take tasks and give none out",
    scope: "operate",
    responses: [{ status: 204, description: "It is paused" }],
  },
  "POST /v1/queues/{id}/resume": {
    idDescription: "Name of the queue",
    operation: "resumeQueue",
    group: "Service",
    summary: "Let a paused queue give out tasks again",
    scope: "operate",
    responses: [{ status: 204, description: "It is not paused any more" }],
  },
  "POST /v1/queues/{id}/purge": {
    idDescription: "Name of the queue",
    operation: "purgeQueue",
    group: "Service",
    summary: "Cancel everything that waits in a queue",
    description:
      "The jobs end as cancelled, with the reason `purged`; what runs goes on. While the answer is 202, call again.",
    scope: "admin",
    query: emptying,
    responses: [{ status: 200, description: "How many that were; nothing is left", schema: Purged }, partly(Purged)],
    problems: ["unsupported"],
  },
  "DELETE /v1/queues/{id}": {
    idDescription: "Name of the queue",
    operation: "deleteQueue",
    group: "Service",
    summary: "Cancel everything that waits in a queue, and take it off the list",
    description:
      "It is paused until it is empty, so that nothing that waited in it runs: while the answer is 202, call again. Its next use lists it again. While a worker runs jobs of it, it is listed with these.",
    scope: "admin",
    query: emptying,
    responses: [
      { status: 200, description: "How many jobs waited in it; nothing is left", schema: Purged },
      partly(Purged),
    ],
    problems: ["unsupported", "not-found"],
  },
  "GET /v1/queues/{id}/jobs": {
    idDescription: "Name of the queue",
    operation: "listWaiting",
    group: "Service",
    summary: "What waits in a queue, in the order in which it will be taken",
    description: "Scheduled jobs come last.",
    scope: "read",
    query: {
      offset: integer(Schema.Int.annotate({ description: "How many to leave out, up to 9,000" })),
      limit: integer(Schema.Int.annotate({ description: "Most ids, 1 to 1,000; 100 if nothing is said" })),
    },
    responses: [{ status: 200, description: "Ids of jobs", schema: WaitingJobs }],
    problems: ["unsupported"],
  },
} as const satisfies Descriptions
