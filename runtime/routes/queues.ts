/** Routes that control queues: pause, limit, purge, delete, and what waits in them. */
import * as Schema from "effect/Schema"
import { QueueChanges } from "../cluster/queue-limits.ts"
import { WaitingJobs } from "../jobs/lists.ts"
import { PartlyDone } from "../jobs/responses.ts"
import { bounded, partly } from "./decisions.ts"
import type { Descriptions } from "./description.ts"
import { boolean, integer } from "./parameter.ts"

export const Purged = Schema.Struct({
  purged: Schema.Int.annotate({ description: "Number of tasks removed from the queue" }),
  partial: Schema.optionalKey(PartlyDone),
}).annotate({ identifier: "Purged" })

export const emptying = {
  forget: boolean(Schema.Boolean.annotate({ description: "Also delete the jobs" })),
  ...bounded,
}

export const QUEUE_ROUTES = {
  "POST /v1/queues/{id}/pause": {
    idDescription: "Name of the queue",
    operation: "pauseQueue",
    group: "Service",
    summary: "Pause a queue: it accepts tasks, but no worker takes them",
    scope: "operate",
    responses: [{ status: 204, description: "The queue is paused" }],
  },
  "POST /v1/queues/{id}/resume": {
    idDescription: "Name of the queue",
    operation: "resumeQueue",
    group: "Service",
    summary: "Resume a paused queue",
    scope: "operate",
    responses: [{ status: 204, description: "The queue is no longer paused" }],
  },
  "PATCH /v1/queues/{id}": {
    idDescription: "Name of the queue",
    operation: "changeQueue",
    group: "Service",
    summary: "Limit how many jobs of a queue run at a time, over all workers",
    description:
      "The queue need not exist yet. Running jobs continue; a job that waits for its time or for its next attempt does not count.",
    scope: "operate",
    body: { "application/json": QueueChanges },
    responses: [{ status: 204, description: "The limit holds" }],
    problems: ["invalid-json", "unsupported-content-type", "too-large"],
  },
  "POST /v1/queues/{id}/purge": {
    idDescription: "Name of the queue",
    operation: "purgeQueue",
    group: "Service",
    summary: "Cancel all waiting jobs of a queue",
    description:
      "The jobs end as cancelled, with the reason `purged`; running jobs continue. While the response is 202, call again.",
    scope: "admin",
    query: emptying,
    responses: [
      { status: 200, description: "Number of cancelled jobs; none are left", schema: Purged },
      partly(Purged),
    ],
    problems: ["unsupported"],
  },
  "DELETE /v1/queues/{id}": {
    idDescription: "Name of the queue",
    operation: "deleteQueue",
    group: "Service",
    summary: "Cancel all waiting jobs of a queue, and remove it from the list",
    description:
      "The queue is paused until it is empty, so that none of its waiting jobs run: while the response is 202, call again. The queue is listed again when it is used again, or while a worker runs its jobs.",
    scope: "admin",
    query: emptying,
    responses: [
      { status: 200, description: "Number of jobs that were waiting in it; none are left", schema: Purged },
      partly(Purged),
    ],
    problems: ["unsupported", "not-found"],
  },
  "GET /v1/queues/{id}/jobs": {
    idDescription: "Name of the queue",
    operation: "listWaiting",
    group: "Service",
    summary: "The waiting jobs of a queue, in the order in which workers take them",
    description: "Scheduled jobs come last.",
    scope: "read",
    query: {
      offset: integer(Schema.Int.annotate({ description: "Number of jobs to skip, up to 9,000" })),
      limit: integer(Schema.Int.annotate({ description: "Maximum number of ids, 1 to 1,000; the default is 100" })),
    },
    responses: [{ status: 200, description: "Ids of jobs", schema: WaitingJobs }],
    problems: ["unsupported"],
  },
} as const satisfies Descriptions
