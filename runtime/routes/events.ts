/** Routes of server-sent events: of one job, and of all jobs. */
import * as Schema from "effect/Schema"
import { TypePatterns } from "../cluster/events.ts"
import { BoardEvent, JobEventSchema } from "../jobs/lists.ts"
import type { Descriptions } from "./description.ts"
import { boolean, list, text } from "./parameter.ts"
import { WorkerEvent } from "./service-schema.ts"

const TYPES = TypePatterns.annotate({
  description:
    "Of what workers and applications tell, only these types, with commas between them; `worker-*` is all that begin so",
})
const JOBS = Schema.Boolean.annotate({ description: "Whether to tell transitions and progress of jobs", default: true })

const ACCESS_TOKEN = Schema.String.annotate({
  description:
    "The token, for an EventSource, which sends no headers; logs of proxies may hold it, so give it the scope `read`",
})
const LAST = Schema.String.annotate({ description: "Like the header `Last-Event-ID`, for those who cannot set one" })

export const EVENT_ROUTES = {
  "GET /v1/jobs/{id}/events": {
    operation: "followJob",
    group: "Events",
    summary: "What happens to a job, as it happens",
    description:
      "Server-sent events: `transition` (with an id), replayed from the beginning or after `Last-Event-ID`, then live; `progress` (last value) in between. Ends after the transition that ends the job.",
    scope: "read",
    call: "events()",
    query: { lastEventId: text(LAST), access_token: text(ACCESS_TOKEN) },
    headers: { "Last-Event-ID": { description: "Go on after this event", example: "1.2" } },
    responses: [
      {
        status: 200,
        description: "A stream; the data of each event is a JobEvent as JSON",
        schema: JobEventSchema,
        contentType: "text/event-stream",
      },
      { status: 204, description: "Nothing follows `Last-Event-ID`: the job has ended. Browsers then stop asking" },
    ],
    problems: ["gone", "overloaded"],
  },
  "GET /v1/events": {
    operation: "followBoard",
    group: "Events",
    summary: "What happens to all jobs, from now on",
    description:
      "Server-sent events, `transition` and `progress`, each with the job it is about; beside them what workers and applications tell, each by its type (`worker-online`, `worker-heartbeat`, `worker-offline`; `task-superseded`: the outcome of a worker that had been overtaken was refused; `task-received` and its like, of workers that were asked to tell of every task). Best effort: nothing is replayed, and a slow reader misses some.",
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
