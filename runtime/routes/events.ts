/** Routes of server-sent events: of one job, and of all jobs. */
import * as Schema from "effect/Schema"
import { TypePatterns } from "../cluster/events.ts"
import { BoardEvent, JobEventSchema } from "../jobs/lists.ts"
import type { Descriptions } from "./description.ts"
import { boolean, list, text } from "./parameter.ts"
import { WorkerEvent } from "./service-schema.ts"

const TYPES = TypePatterns.annotate({
  description:
    "Types of worker and application events to include, separated by commas; `worker-*` matches all types with that prefix",
})
const JOBS = Schema.Boolean.annotate({
  description: "Whether to include transitions and progress of jobs",
  default: true,
})

const ACCESS_TOKEN = Schema.String.annotate({
  description:
    "The token, for an EventSource, which cannot send headers; proxies may log it, so do not put a token of the service here: for one job use a link to it",
})
const LAST = Schema.String.annotate({ description: "Like the header `Last-Event-ID`, for clients that cannot set it" })

export const EVENT_ROUTES = {
  "GET /v1/jobs/{id}/events": {
    operation: "followJob",
    group: "Events",
    summary: "Events of a job, live",
    description:
      "Server-sent events: `transition` (with an id), replayed from the start or after `Last-Event-ID`, then live; `progress` (last value) in between. The stream ends after the transition that ends the job.",
    scope: "read",
    link: true,
    call: "events()",
    query: { lastEventId: text(LAST), access_token: text(ACCESS_TOKEN) },
    headers: { "Last-Event-ID": { description: "Continue after this event", example: "1.2" } },
    responses: [
      {
        status: 200,
        description: "A stream; the data of each event is a JobEvent as JSON",
        schema: JobEventSchema,
        contentType: "text/event-stream",
      },
      {
        status: 204,
        description: "The job has ended and nothing follows `Last-Event-ID`. Browsers then stop reconnecting",
      },
    ],
    problems: ["gone", "overloaded"],
  },
  "GET /v1/events": {
    operation: "followBoard",
    group: "Events",
    summary: "Events of all jobs, from now on",
    description:
      "Server-sent events, `transition` and `progress`, each with its job; and the events of workers and applications, each under its type (`worker-online`, `worker-heartbeat`, `worker-offline`; `task-superseded`: the outcome of a worker that had lost the job was refused; `task-received` and others, from workers that were asked to report every task). Best effort: nothing is replayed, and a slow reader misses events.",
    scope: "read",
    showsPayload: true,
    query: { types: list(TYPES), jobs: boolean(JOBS), access_token: text(ACCESS_TOKEN) },
    responses: [
      {
        status: 200,
        description: "A stream; the data of each event is a BoardEvent or a WorkerEvent as JSON",
        schema: Schema.Union([BoardEvent, WorkerEvent]),
        contentType: "text/event-stream",
      },
    ],
    problems: ["overloaded"],
  },
} as const satisfies Descriptions
