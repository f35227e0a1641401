/** Routes about one job, by its id. */
import * as Schema from "effect/Schema"
import { HANDLE } from "../jobs/handle.ts"
import { JobTree, QueuePlace } from "../jobs/lists.ts"
import { Forgotten, Job, JobResult, JobWith, Pending, RunResults, StateSchema } from "../jobs/responses.ts"
import { Why } from "../jobs/why/cause.ts"
import { StepPage } from "../steps/listing.ts"
import { MAX_PAGE } from "./bounds.ts"
import { bounded, partly } from "./decisions.ts"
import type { Descriptions } from "./description.ts"
import { boolean, integer, list, text } from "./parameter.ts"
import { MetaPatch } from "./service-schema.ts"
import { Wait } from "./waiting.ts"

const With = Schema.Array(Schema.Literals(["input", "attempts"])).annotate({
  description:
    "What is told beside the job, with commas between: `input`, which needs the scope `payload`, and `attempts`",
})

/** Most jobs of a tree, unless the request says otherwise. */
export const DEFAULT_TREE = 200

const TreeLimit = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_PAGE })).annotate({
  description: "Most jobs to show",
  default: DEFAULT_TREE,
})

const StepLimit = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_PAGE })).annotate({
  description: "Most steps on a page",
  default: 100,
})

const StepCursor = Schema.String.annotate({ description: "`next` of the page before" })

const JOB = { status: 200, description: "The job", schema: Job } as const

export const JOB_ROUTES = {
  "GET /v1/jobs/{id}": {
    operation: "getJob",
    group: "Jobs",
    summary: "What is known about a job",
    description:
      "With `with=attempts` the field `attempts` has the attempts instead of their number; with `with=input` the field `input` is an object with the value, or the beginning of a long one, its size, and what is hidden.",
    scope: "read",
    query: { with: list(With) },
    headers: {
      "If-None-Match": {
        description: "The `ETag` of the last answer: 304 where nothing has changed",
        example: '"9wN7"',
      },
    },
    responses: [
      {
        status: 200,
        description: "The job",
        schema: Job,
        alternative: JobWith,
        headers: { ETag: "Changes with the answer" },
      },
      { status: 304, description: "Nothing has changed since the answer with this `ETag`" },
    ],
    problems: ["gone"],
  },
  "GET /v1/jobs/{id}/tree": {
    operation: "getTree",
    group: "Jobs",
    summary: "The workflow of a job",
    description:
      "The jobs of its root, and those that it waits for or that wait for it. Where there are `more`, these are the newest.",
    scope: "read",
    query: { limit: integer(TreeLimit) },
    responses: [{ status: 200, description: "The jobs, oldest first, the root before them", schema: JobTree }],
    problems: ["gone", "unsupported"],
  },
  "GET /v1/jobs/{id}/steps": {
    operation: "getSteps",
    group: "Jobs",
    summary: "The durable steps of a job",
    description: "Those of its last run that have ended, in that order; results need the scope `payload`.",
    scope: "read",
    query: { limit: integer(StepLimit), cursor: text(StepCursor) },
    responses: [{ status: 200, description: "The steps", schema: StepPage }],
    problems: ["gone"],
  },
  "GET /v1/jobs/{id}/results": {
    operation: "getResults",
    group: "Jobs",
    summary: "How the last runs of a job ended",
    description:
      "The last ten runs, newest first. A job that runs once has one result once it has ended; with `wait` the first one is waited for.",
    scope: "read",
    call: "results()",
    query: { wait: text(Wait) },
    responses: [{ status: 200, description: "The results", schema: RunResults }],
    problems: ["gone"],
  },
  "GET /v1/jobs/{id}/result": {
    operation: "getResult",
    group: "Jobs",
    summary: "How a job ended, once it has",
    description:
      "`200` once the job has ended, however it did: `state` says how. `202` before, also when `wait` is over; the job goes on.",
    scope: "read",
    call: "result()",
    query: { wait: text(Wait) },
    responses: [
      { status: 200, description: "The job has ended", schema: JobResult },
      {
        status: 202,
        description: "The job goes on",
        schema: Pending,
        headers: { "Retry-After": "Seconds after which it is worth asking again" },
      },
    ],
    problems: ["gone"],
  },
  "GET /v1/jobs/{id}/position": {
    operation: "getPosition",
    group: "Jobs",
    summary: "The place of a job in its queue",
    scope: "read",
    responses: [{ status: 200, description: "The place", schema: QueuePlace }],
    problems: ["unsupported"],
  },
  "POST /v1/jobs/{id}/cancel": {
    operation: "cancelJob",
    group: "Jobs",
    summary: "Cancel a job",
    description:
      "A job that waits will not run. The handler of one that runs sees its signal fire, and its outcome is refused; with `terminate=true` a handler that runs in a process of its own is ended at once, and the process of a worker whose thread another one blocks ends within ten seconds, also where the job was cancelled before. Jobs that wait for it stay deferred; with `release=true` they need not wait for it any more.",
    scope: "operate",
    call: "cancel()",
    query: {
      terminate: boolean(HANDLE.cancel.options.terminate),
      release: boolean(HANDLE.cancel.options.release),
      state: list(
        Schema.Array(StateSchema).check(Schema.isMinLength(1), Schema.isMaxLength(20)).annotate({
          description: "Only while it is in one of these states, with commas between them; else `matches-differ`",
        }),
      ),
    },
    responses: [JOB],
    problems: ["already-terminal", "gone", "matches-differ"],
  },
  "POST /v1/jobs/{id}/retry": {
    operation: "retryJob",
    group: "Jobs",
    summary: "Run an ended job again",
    description:
      "Begins the job's next run, under the same id. `unsupported` where its input is not kept, as for jobs that succeeded.",
    scope: "operate",
    call: "retry()",
    query: { from: text(HANDLE.retry.options.from) },
    responses: [JOB],
    problems: ["job-exists", "gone", "unsupported"],
  },
  "POST /v1/jobs/{id}/run-now": {
    operation: "runJobNow",
    group: "Jobs",
    summary: "Let a scheduled job run at once",
    description:
      "Also one that waits for its next attempt. A job that is in its queue stays as it is; `job-exists` while it runs, or waits for other jobs.",
    scope: "operate",
    responses: [JOB],
    problems: ["job-exists", "already-terminal", "gone", "unsupported"],
  },
  "DELETE /v1/jobs/{id}": {
    operation: "deleteJob",
    group: "Jobs",
    summary: "Forget a job",
    description:
      "A job that waits will not run. `job-exists` while it runs: cancel it first. Unless it had succeeded, a job that waits for it fails, or starts where a failure will do; with `dependents=true` it is forgotten as well, and before it: while the answer is 202, call again.",
    scope: "admin",
    call: "delete()",
    query: { ...bounded, dependents: boolean(HANDLE.delete.options.dependents) },
    responses: [{ status: 204, description: "Forgotten" }, partly(Forgotten)],
    problems: ["job-exists", "gone"],
  },
  "PATCH /v1/jobs/{id}/meta": {
    operation: "patchMeta",
    group: "Jobs",
    summary: "Change the meta data of a job",
    description:
      "A merge patch (RFC 7396): fields are set, `null` removes one. Where the handler changes the same field of a job that goes on, the value that is given here stays.",
    scope: "admin",
    body: { "application/json": MetaPatch },
    responses: [JOB],
    problems: ["invalid-json", "unsupported-content-type", "too-large", "gone"],
  },
} as const satisfies Descriptions

export const WHY_ROUTES = {
  "GET /v1/jobs/{id}/why": {
    operation: "getWhy",
    group: "Jobs",
    summary: "Why a job does not run",
    description:
      "The first cause is the true one; what else would hold it up follows. Also `200` while the transport cannot be reached: that is the cause then.",
    scope: "read",
    responses: [{ status: 200, description: "The causes", schema: Why }],
    problems: ["gone"],
  },
} as const satisfies Descriptions
