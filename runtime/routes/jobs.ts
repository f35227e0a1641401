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

const Limit = pageLimit("Most jobs to look at")

const page = {
  limit: integer(Limit),
  cursor: text(
    Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(1024)).annotate({
      description: "Where to go on: the `next` of the page before",
    }),
  ),
}

const taskFilter = {
  task: text(Text("As it was submitted, exactly: `text.count`")),
  queue: text(Text("Name of the queue")),
}

const isTime = Schema.makeFilter((given: string) => {
  const parsed = parseTime(given)
  return Result.isSuccess(parsed) || parsed.failure.message
})
const Time = (description: string) =>
  Schema.String.annotate({ description, examples: ["2026-01-31T08:00:00Z"] }).check(isTime)

const Budget = Schema.String.annotate({
  description: `Longest search: an answer that is cut is \`partial\`, and \`next\` goes on. ${DEFAULT_BUDGET_MS / 1000} s if nothing is said`,
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
      description: `Also how many jobs match: \`total\`, counted up to ${MAX_TOTAL.toLocaleString("en")}, within the budget`,
    }),
  ),
}

export const filter = {
  state: list(
    Schema.Array(StateSchema)
      .check(Schema.isMinLength(1), Schema.isMaxLength(20))
      .annotate({ description: "Any of these states, with commas between them" }),
  ),
  ...taskFilter,
  root: text(Text("Id of the first job of a workflow")),
  parent: text(Text("Id of the job that submitted it")),
  group: text(Text("The `group` of the submission")),
  error: text(
    Fingerprint.annotate({
      description: "Fingerprint of the failure, the same for jobs that failed alike",
    }),
  ),
  idEnds: text(
    IdEnd.annotate({
      description: "The last eight characters of its id, where these are hexadecimal, in lower case or in capitals",
    }),
  ),
  since: text(Time("Submitted at this time or later: ISO 8601")),
  until: text(Time("Submitted before this time: ISO 8601")),
  ...page,
}

const { state: _state, root: _root, parent: _parent, group: _group, ...someFilter } = filter
export const deadFilter = { ...someFilter, reason: text(Text("Why it was given up, as its `dead` says")) }

export const CANCELLABLE = STATES.filter((state) => !isTerminal(state))
export const RETRYABLE = ["failed", "cancelled", "expired"] as const

/** Most jobs that one address names: proxies take addresses of 8 kB. */
const MAX_NAMED = 100

/** Parameters of a decision about many jobs. */
export const bulk = {
  ids: list(
    Schema.Array(Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(255)))
      .check(Schema.isMinLength(1), Schema.isMaxLength(MAX_NAMED))
      .annotate({ description: "Exactly these jobs, with commas between them, in place of filters" }),
  ),
  until: text(Time("Only jobs that were submitted before this time, and have not changed their state since: ISO 8601")),
  dryRun: boolean(Schema.Boolean.annotate({ description: "Change nothing, and answer what would be done" })),
  expect: integer(
    Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)).annotate({
      description:
        "How many jobs are meant: `matches-differ` where more than 1 % more or fewer match. Without `cursor`",
    }),
  ),
}

const FROZEN =
  "With `until` (of a dry run, say) only those are meant that match since then. A small `limit` at first tries it with a few."

const BULK = [
  {
    status: 200,
    description: "What was changed, and nothing is left; with `dryRun` what would be done",
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
    summary: "How many jobs there are",
    description:
      "By `state` and `queue` alone the number is exact, but for jobs that have succeeded: they, and jobs by any other filter, are counted up to 1,000, and then `more` is true.",
    scope: "read",
    query: countFilter,
    responses: [{ status: 200, description: "The number", schema: JobCount }],
  },
  "GET /v1/jobs": {
    operation: "listJobs",
    group: "Jobs",
    summary: "Jobs, newest first",
    description: "Without what may be long: ask for a job by its id to see its result and transitions.",
    scope: "read",
    query: { ...filter, ...search },
    responses: [LIST],
  },
  "POST /v1/jobs/cancel": {
    operation: "cancelJobs",
    group: "Jobs",
    summary: "Cancel many jobs",
    description: `Cancels up to \`limit\` jobs that match; at least one filter must be given. Without \`state\`: jobs that are ${CANCELLABLE.join(", ")}. While the answer is 202 (\`more\` is true), call again with \`cursor\`. ${FROZEN}`,
    scope: "operate",
    query: { ...filter, ...bulk },
    responses: BULK,
    problems: ["matches-differ"],
  },
  "POST /v1/jobs/retry": {
    operation: "retryJobs",
    group: "Jobs",
    summary: "Run many ended jobs again",
    description: `Runs up to \`limit\` jobs that match again; at least one filter must be given. Without \`state\`: jobs that are ${RETRYABLE.join(", ")}. While the answer is 202 (\`more\` is true), call again with \`cursor\`. ${FROZEN}`,
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
    description: "Tasks that nobody serves, that cannot be decoded, or that end their worker: `dead` says why.",
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
      "Runs up to `limit` dead letters that match again; without a filter, all of them. While the answer is 202 (`more` is true), call again with `cursor`.",
    scope: "operate",
    query: { ...deadFilter, ...bulk },
    responses: BULK,
    problems: ["matches-differ"],
  },
} as const satisfies Descriptions
