/** Routes about many jobs: lists and bulk calls, by one filter of query parameters, and the same for dead letters. */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { BulkPlan, BulkReport, JobCount, JobList } from "../jobs/lists.ts"
import { Job, StateSchema } from "../jobs/responses.ts"
import { Fingerprint, IdEnd } from "../options/fields.ts"
import { isTerminal, STATES } from "../protocol/state.ts"
import { parseDuration, parseTime } from "../protocol/time.ts"
import { BUDGET_RANGE_MS, DEFAULT_BUDGET_MS, MAX_TOTAL, pageLimit } from "./bounds.ts"
import { partly } from "./decisions.ts"
import type { Descriptions } from "./description.ts"
import { boolean, integer, list, text } from "./parameter.ts"

const Text = (description: string) =>
  Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(255)).annotate({ description })

const Limit = pageLimit("Maximum number of jobs to read")

const page = {
  limit: integer(Limit),
  cursor: text(
    Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(1024)).annotate({
      description: "Where to continue: the `next` of the previous page",
    }),
  ),
}

const taskFilter = {
  task: text(Text("The exact submitted name, such as `text.count`")),
  queue: text(Text("Name of the queue")),
}

const isTime = Schema.makeFilter((given: string) => {
  const parsed = parseTime(given)
  return Result.isSuccess(parsed) || parsed.failure.message
})
const Time = (description: string) =>
  Schema.String.annotate({ description, examples: ["2026-01-31T08:00:00Z"] }).check(isTime)

const Budget = Schema.String.annotate({
  description: `Time limit of the search; a response that was cut short is \`partial\`, and \`next\` continues it. The default is ${DEFAULT_BUDGET_MS / 1000} s`,
  examples: ["50ms"],
}).check(
  Schema.makeFilter((given: string) => {
    const parsed = parseDuration(given)
    if (Result.isFailure(parsed)) return parsed.failure.message
    const [min, max] = BUDGET_RANGE_MS
    return (parsed.success >= min && parsed.success <= max) || `must be from ${min} ms to ${max / 1000} s`
  }),
)

export const search = {
  budget: text(Budget),
  count: boolean(
    Schema.Boolean.annotate({
      description: `Also return the number of matching jobs: \`total\`, counted up to ${MAX_TOTAL.toLocaleString("en")}, within the budget`,
    }),
  ),
}

export const filter = {
  state: list(
    Schema.Array(StateSchema)
      .check(Schema.isMinLength(1), Schema.isMaxLength(20))
      .annotate({ description: "Any of these states, separated by commas" }),
  ),
  ...taskFilter,
  root: text(Text("Id of the first job of a workflow")),
  parent: text(Text("Id of the job that submitted it")),
  group: text(Text("The `group` of the submission")),
  error: text(
    Fingerprint.annotate({
      description: "Fingerprint of the failure, the same for jobs that failed in the same way",
    }),
  ),
  idEnds: text(
    IdEnd.annotate({
      description: "The last eight characters of its id, if they are hexadecimal, in lower or upper case",
    }),
  ),
  since: text(Time("Submitted at this time or later: ISO 8601")),
  until: text(Time("Submitted before this time: ISO 8601")),
  ...page,
}

const { state: _state, root: _root, parent: _parent, group: _group, ...someFilter } = filter
export const deadFilter = { ...someFilter, reason: text(Text("The reason of a dead letter, as in its field `dead`")) }

export const CANCELLABLE = STATES.filter((state) => !isTerminal(state))
export const RETRYABLE = ["failed", "cancelled", "expired"] as const

/** Most jobs that one address names: proxies take addresses of 8 kB. */
const MAX_NAMED = 100

/** Parameters of a decision about many jobs. */
export const bulk = {
  ids: list(
    Schema.Array(Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(255)))
      .check(Schema.isMinLength(1), Schema.isMaxLength(MAX_NAMED))
      .annotate({ description: "Exactly these jobs, separated by commas, instead of filters" }),
  ),
  until: text(Time("Only jobs that were submitted before this time and whose state has not changed since: ISO 8601")),
  dryRun: boolean(Schema.Boolean.annotate({ description: "Change nothing, and return what would be done" })),
  expect: integer(
    Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)).annotate({
      description:
        "Expected number of jobs: `matches-differ` if the number of matches differs by more than 1 %. Without `cursor`",
    }),
  ),
}

const FROZEN =
  "With `until` (for example from a dry run) only jobs that have matched since then are changed. Start with a small `limit` to try it on a few."

const BULK = [
  {
    status: 200,
    description: "The changed jobs, none are left; with `dryRun` the jobs that would be changed",
    schema: BulkReport,
    alternative: BulkPlan,
  },
  partly(BulkReport),
] as const
const LIST = { status: 200, description: "A page of jobs", schema: JobList } as const

const { limit: _limit, cursor: _cursor, ...countFilter } = filter

export const JOBS_ROUTES = {
  "GET /v1/count": {
    operation: "countJobs",
    group: "Jobs",
    summary: "Count jobs",
    description:
      "With the filters `state` and `queue` only, the number is exact. Succeeded jobs, and jobs by any other filter, are counted up to 1,000; beyond that `more` is true.",
    scope: "read",
    query: countFilter,
    responses: [{ status: 200, description: "The number", schema: JobCount }],
  },
  "GET /v1/jobs": {
    operation: "listJobs",
    group: "Jobs",
    summary: "Jobs, newest first",
    description: "Without long fields: get a job by its id to see its result and transitions.",
    scope: "read",
    query: { ...filter, ...search },
    responses: [LIST],
  },
  "POST /v1/jobs/cancel": {
    operation: "cancelJobs",
    group: "Jobs",
    summary: "Cancel many jobs",
    description: `Cancels up to \`limit\` jobs that match; at least one filter is required. Without \`state\`: jobs that are ${CANCELLABLE.join(", ")}. While the response is 202 (\`more\` is true), call again with \`cursor\`. ${FROZEN}`,
    scope: "operate",
    query: { ...filter, ...bulk },
    responses: BULK,
    problems: ["matches-differ"],
  },
  "POST /v1/jobs/retry": {
    operation: "retryJobs",
    group: "Jobs",
    summary: "Run many ended jobs again",
    description: `Runs up to \`limit\` jobs that match again; at least one filter is required. Without \`state\`: jobs that are ${RETRYABLE.join(", ")}. While the response is 202 (\`more\` is true), call again with \`cursor\`. ${FROZEN}`,
    scope: "operate",
    query: { ...filter, ...bulk },
    responses: BULK,
    problems: ["matches-differ"],
  },
} as const satisfies Descriptions

export const DEAD_ROUTES = {
  "GET /v1/dead": {
    operation: "listDead",
    group: "Dead letters",
    summary: "Dead letters, newest first",
    description: "Tasks that no worker serves, that cannot be decoded, or that kill their worker: `dead` says why.",
    scope: "read",
    query: { ...deadFilter, ...search },
    responses: [LIST],
  },
  "POST /v1/dead/{id}/redrive": {
    operation: "redriveJob",
    group: "Dead letters",
    summary: "Run a dead letter again",
    scope: "operate",
    responses: [{ status: 200, description: "The job", schema: Job }],
    problems: ["job-exists", "gone", "unsupported"],
  },
  "POST /v1/dead/redrive": {
    operation: "redriveJobs",
    group: "Dead letters",
    summary: "Run many dead letters again",
    description:
      "Runs up to `limit` dead letters that match again; without a filter, all of them. While the response is 202 (`more` is true), call again with `cursor`.",
    scope: "operate",
    query: { ...deadFilter, ...bulk },
    responses: BULK,
    problems: ["matches-differ"],
  },
} as const satisfies Descriptions
