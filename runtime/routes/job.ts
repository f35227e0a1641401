/** Routes about one job, by its id. */
import * as Schema from "effect/Schema"
import { JobLink, LinkRequest } from "../jobs/link.ts"
import { JobTree, QueuePlace } from "../jobs/lists.ts"
import { Forgotten, Job, JobResult, JobWith, Pending, RunResults, StateSchema } from "../jobs/responses.ts"
import { Why } from "../jobs/why/cause.ts"
import { StepPage } from "../steps/listing.ts"
import { MAX_PAGE } from "./bounds.ts"
import { bounded, partly } from "./decisions.ts"
import type { Descriptions } from "./description.ts"
import { boolean, integer, list, text } from "./parameter.ts"
import { MetaPatch, SignalBody } from "./service-schema.ts"
import { Wait } from "./waiting.ts"

const With = Schema.Array(Schema.Literals(["input", "attempts"])).annotate({
  description: "Additional parts, separated by commas: `input`, which needs the scope `payload`, and `attempts`",
})

/** Most jobs of a tree, unless the request says otherwise. */
export const DEFAULT_TREE = 200

const TreeLimit = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_PAGE })).annotate({
  description: "Maximum number of jobs",
  default: DEFAULT_TREE,
})

const StepLimit = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_PAGE })).annotate({
  description: "Maximum number of steps on a page",
  default: 100,
})

const StepCursor = Schema.String.annotate({ description: "`next` of the previous page" })

const JOB = { status: 200, description: "The job", schema: Job } as const

export const JOB_ROUTES = {
  "GET /v1/jobs/{id}": {
    operation: "getJob",
    group: "Jobs",
    summary: "Get a job",
    description:
      "With `with=attempts` the field `attempts` has the attempts instead of their number; with `with=input` the field `input` is an object with the value, or the start of a long value, its size, and the names of hidden values.",
    scope: "read",
    link: true,
    query: { with: list(With) },
    headers: {
      "If-None-Match": {
        description: "The `ETag` of the last response: 304 if nothing has changed",
        example: '"9wN7"',
      },
    },
    responses: [
      {
        status: 200,
        description: "The job",
        schema: Job,
        alternative: JobWith,
        headers: { ETag: "Changes when the response changes" },
      },
      { status: 304, description: "Nothing has changed since the response with this `ETag`" },
    ],
    problems: ["gone"],
  },
  "GET /v1/jobs/{id}/tree": {
    operation: "getTree",
    group: "Jobs",
    summary: "The workflow of a job",
    description:
      "The jobs of its root, the jobs that it waits for and the jobs that wait for it. If there are `more`, these are the newest.",
    scope: "read",
    query: { limit: integer(TreeLimit) },
    responses: [{ status: 200, description: "The jobs: the root first, then oldest first", schema: JobTree }],
    problems: ["gone", "unsupported"],
  },
  "GET /v1/jobs/{id}/steps": {
    operation: "getSteps",
    group: "Jobs",
    summary: "The durable steps of a job",
    description: "The steps of its last run, in the order in which they ended; results need the scope `payload`.",
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
      "The last ten runs, newest first. A job that runs only once has one result after it has ended; with `wait` the response waits for the first one.",
    scope: "read",
    call: "results()",
    query: { wait: text(Wait) },
    responses: [{ status: 200, description: "The results", schema: RunResults }],
    problems: ["gone"],
  },
  "GET /v1/jobs/{id}/result": {
    operation: "getResult",
    group: "Jobs",
    summary: "The outcome of a job, once it has ended",
    description:
      "`200` once the job has ended, in any state: see `state`. `202` before that, even when `wait` has passed; the job continues.",
    scope: "read",
    link: true,
    call: "result()",
    query: { wait: text(Wait) },
    responses: [
      { status: 200, description: "The job has ended", schema: JobResult },
      {
        status: 202,
        description: "The job has not ended",
        schema: Pending,
        headers: { "Retry-After": "Seconds to wait before asking again" },
      },
    ],
    problems: ["gone"],
  },
  "GET /v1/jobs/{id}/position": {
    operation: "getPosition",
    group: "Jobs",
    summary: "The position of a job in its queue",
    scope: "read",
    responses: [{ status: 200, description: "The position", schema: QueuePlace }],
    problems: ["unsupported"],
  },
  "POST /v1/jobs/{id}/cancel": {
    operation: "cancelJob",
    group: "Jobs",
    summary: "Cancel a job",
    description:
      "A waiting job will not run. If the job is running, its signal fires and its outcome is refused. With `terminate=true` a handler in a separate process is killed at once, and a worker that the handler blocks exits within ten seconds, even if the job was cancelled before. Jobs that wait for it stay deferred; with `release=true` they no longer wait for it.",
    scope: "operate",
    link: true,
    call: "cancel()",
    query: {
      terminate: boolean(
        Schema.Boolean.annotate({
          description:
            "Kill the process of an isolated handler, or of a worker that the job blocks; for other handlers only the signal fires",
        }),
      ),
      release: boolean(
        Schema.Boolean.annotate({
          description: "Let the jobs that wait for it start without it, even if it was cancelled before",
        }),
      ),
      state: list(
        Schema.Array(StateSchema).check(Schema.isMinLength(1), Schema.isMaxLength(20)).annotate({
          description: "Only if it is in one of these states, separated by commas; otherwise `matches-differ`",
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
      "Starts the next run of the job, with the same id. `unsupported` if its input is not kept, for example after a success.",
    scope: "operate",
    link: true,
    call: "retry()",
    query: {
      from: text(
        Schema.Literal("start").annotate({
          description:
            "Discard the durable steps; if absent, the job continues after its completed steps, or continues to revert them",
        }),
      ),
      fromStep: text(
        Schema.NonEmptyString.annotate({
          description:
            "Name of a durable step or wait: it runs again, and so does everything that had not ended before it",
        }),
      ),
    },
    responses: [JOB],
    problems: ["job-exists", "gone", "unsupported"],
  },
  "POST /v1/jobs/{id}/link": {
    operation: "linkJob",
    group: "Jobs",
    summary: "Make a link to a job",
    description:
      "A token for this job alone, signed with `http.linkSecret` and not stored. It cannot be revoked, except by changing the secret. It never has a scope that the caller lacks.",
    scope: "read",
    call: "link()",
    body: { "application/json": LinkRequest },
    isBodyOptional: true,
    responses: [{ status: 200, description: "The link", schema: JobLink }],
    problems: ["invalid-json", "unsupported-content-type", "too-large", "gone", "unsupported"],
  },
  "POST /v1/jobs/{id}/run-now": {
    operation: "runJobNow",
    group: "Jobs",
    summary: "Run a scheduled job now",
    description:
      "Also applies to a job that is waiting for its next attempt. A job in its queue is not changed; `job-exists` while it is running or waits for other jobs.",
    scope: "operate",
    responses: [JOB],
    problems: ["job-exists", "already-terminal", "gone", "unsupported"],
  },
  "DELETE /v1/jobs/{id}": {
    operation: "deleteJob",
    group: "Jobs",
    summary: "Delete a job",
    description:
      "A waiting job will not run. `job-exists` while it is running: cancel it first. Unless it has succeeded, a job that waits for it fails, or starts if it allows failures; with `dependents=true` such jobs are deleted first: while the response is 202, call again.",
    scope: "admin",
    call: "delete()",
    query: {
      ...bounded,
      dependents: boolean(
        Schema.Boolean.annotate({
          description: "Also delete the jobs that wait for it, and the jobs that wait for those",
        }),
      ),
    },
    responses: [{ status: 204, description: "Forgotten" }, partly(Forgotten)],
    problems: ["job-exists", "gone"],
  },
  "POST /v1/jobs/{id}/signals/{name}": {
    operation: "signalJob",
    group: "Jobs",
    summary: "Send a value to a job",
    description:
      "Its handler gets the value from `job.waitFor`, also if it comes there later; a job that waits for it continues. With the `key` of an earlier signal of the job the signal counts once.",
    scope: "submit",
    body: { "application/json": SignalBody },
    isBodyOptional: true,
    // The caller may not read the job.
    responses: [{ status: 204, description: "The signal is stored" }],
    problems: ["invalid-json", "unsupported-content-type", "too-large", "gone", "already-terminal"],
  },
  "PATCH /v1/jobs/{id}/meta": {
    operation: "patchMeta",
    group: "Jobs",
    summary: "Change the metadata of a job",
    description:
      "A merge patch (RFC 7396): sets fields, and removes a field with `null`. If the handler of a running job changes the same field, the value from this request wins.",
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
    summary: "Why a job is not running",
    description:
      "The first cause is the actual one; causes that would delay the job next follow. Also `200` while the transport is unreachable, which is then the cause.",
    scope: "read",
    responses: [{ status: 200, description: "The causes", schema: Why }],
    problems: ["gone"],
  },
} as const satisfies Descriptions
