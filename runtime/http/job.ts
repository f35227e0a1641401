/** Routes about one job, by its id. */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { CallboardError } from "../errors.ts"
import { cancelJob } from "../jobs/commands/cancel.ts"
import { stillIn } from "../jobs/commands/decide.ts"
import { deleteJob } from "../jobs/commands/delete.ts"
import { patchMeta } from "../jobs/commands/meta.ts"
import { rerunJob, runJobNow } from "../jobs/commands/rerun.ts"
import { HANDLE } from "../jobs/handle.ts"
import { JobTree, QueuePlace } from "../jobs/lists.ts"
import { Forgotten, Job, JobResult, JobWith, Pending, RunResults, StateSchema } from "../jobs/responses.ts"
import { treeOf } from "../jobs/tree.ts"
import { jobView, type RunView, runView } from "../jobs/view.ts"
import { transportDown } from "../jobs/why/ask.ts"
import { Why, withoutTenant } from "../jobs/why/cause.ts"
import type { JobRecord, RunOutcome } from "../protocol/record.ts"
import { parseDuration } from "../protocol/time.ts"
import { StepPage, stepsOf } from "../steps/listing.ts"
import type { Caller } from "./access.ts"
import { bounded, budgetOf, partly } from "./decisions.ts"
import {
  detailsFor,
  detailsWith,
  jobOutcome,
  recordAfterWait,
  recordOf,
  resultsAfterWait,
  shownTo,
} from "./job-record.ts"
import { boundedRead, DEFAULT_BUDGET_MS, MAX_PAGE, MAX_WAIT_MS, withReadDeadline } from "./limits.ts"
import { boolean, integer, list, text } from "./parameter.ts"
import { bodyOf } from "./request-body.ts"
import { json, tagged } from "./response.ts"
import { type Route, route } from "./route.ts"
import { MetaPatch } from "./schema.ts"

export const Wait = Schema.String.annotate({
  description: `Longest wait for the end: seconds, or text such as \`30s\`; ${MAX_WAIT_MS / 1000} s at most`,
  examples: ["30s"],
}).check(
  Schema.makeFilter((given: string) => {
    const parsed = parseDuration(given)
    if (Result.isFailure(parsed)) return parsed.failure.message
    return parsed.success <= MAX_WAIT_MS || `must be at most ${MAX_WAIT_MS / 1000} s; ask again for longer`
  }),
)

/** `Retry-After` in seconds: 1, or until a scheduled job is due, 60 at most. */
const retryAfter = ({ state, dueAt }: JobRecord): string => {
  if (state !== "scheduled" || dueAt === undefined) return "1"
  return String(Math.min(Math.max(Math.ceil((dueAt - Date.now()) / 1000), 1), 60))
}

const runFor = (caller: Caller, outcome: RunOutcome): RunView => {
  const view = runView(outcome)
  if (caller.may("payload")) return view
  const { result: _result, ...rest } = view
  return rest
}

const With = Schema.Array(Schema.Literals(["input", "attempts"])).annotate({
  description:
    "What is told beside the job, with commas between: `input`, which needs the scope `payload`, and `attempts`",
})

/** Most jobs of a tree, unless the request says otherwise. */
const DEFAULT_TREE = 200

const TreeLimit = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_PAGE })).annotate({
  description: "Most jobs to show",
  default: DEFAULT_TREE,
})

const StepLimit = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_PAGE })).annotate({
  description: "Most steps on a page",
  default: 100,
})

const StepCursor = Schema.String.annotate({ description: "`next` of the page before" })

const JOB = { status: 200, description: "The job", schema: Job }

export const jobRoutes: ReadonlyArray<Route> = [
  route({
    method: "GET",
    path: "/v1/jobs/{id}",
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
        schema: Schema.Union([Job, JobWith]),
        headers: { ETag: "Changes with the answer" },
      },
      { status: 304, description: "Nothing has changed since the answer with this `ETag`" },
    ],
    problems: ["gone"],
    handle: async ({ c, caller, context, id, query }) => {
      const parts = query.with ?? []
      if (parts.includes("input") && !caller.may("payload")) {
        throw new CallboardError("forbidden", "this token lacks the scope payload, which with=input needs", {
          scope: "payload",
        })
      }
      const record = await recordOf(context, id)
      return parts.length === 0
        ? tagged<typeof Job.Type>(c.req.raw, await detailsFor(context, caller, record))
        : tagged<typeof JobWith.Type>(c.req.raw, await detailsWith(context, caller, record, parts))
    },
  }),
  route({
    method: "GET",
    path: "/v1/jobs/{id}/tree",
    operation: "getTree",
    group: "Jobs",
    summary: "The workflow of a job",
    description:
      "The jobs of its root, and those that it waits for or that wait for it. Where there are `more`, these are the newest.",
    scope: "read",
    query: { limit: integer(TreeLimit) },
    responses: [{ status: 200, description: "The jobs, oldest first, the root before them", schema: JobTree }],
    problems: ["gone", "unsupported"],
    handle: ({ c, context, id, query: { limit = DEFAULT_TREE } }) =>
      boundedRead(c.req.raw.signal, async (signal) => {
        const options = { limit, budget: DEFAULT_BUDGET_MS, signal }
        return json<typeof JobTree.Type>(await treeOf(context.client.connection, id, options))
      }),
  }),
  route({
    method: "GET",
    path: "/v1/jobs/{id}/steps",
    operation: "getSteps",
    group: "Jobs",
    summary: "The durable steps of a job",
    description: "Those of its last run that have ended, in that order; results need the scope `payload`.",
    scope: "read",
    query: { limit: integer(StepLimit), cursor: text(StepCursor) },
    responses: [{ status: 200, description: "The steps", schema: StepPage }],
    problems: ["gone"],
    handle: async ({ caller, context, id, query: { limit = 100, cursor } }) => {
      const page = await withReadDeadline(stepsOf(context.client.connection, id, { limit, after: cursor }))
      const shown = caller.may("payload") ? page.steps : page.steps.map(({ value: _value, ...step }) => step)
      return json<typeof StepPage.Type>({ ...page, steps: shown })
    },
  }),
  route({
    method: "GET",
    path: "/v1/jobs/{id}/results",
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
    handle: async ({ c, caller, context, id, query }) => {
      const wait = parseDuration(query.wait ?? 0)
      const ms = Result.isSuccess(wait) ? wait.success : 0
      const results = await resultsAfterWait(context, id, ms, c.req.raw.signal)
      return json<typeof RunResults.Type>({ id, results: results.map((each) => runFor(caller, each)) })
    },
  }),
  route({
    method: "GET",
    path: "/v1/jobs/{id}/result",
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
    handle: async ({ c, caller, context, id, query }) => {
      const wait = parseDuration(query.wait ?? 0)
      const record = await recordAfterWait(context, id, Result.isSuccess(wait) ? wait.success : 0, c.req.raw.signal)
      const end = jobOutcome(record)
      if (end !== undefined) {
        const { result: _result, ...how } = end
        return json<typeof JobResult.Type>(caller.may("payload") ? { id, ...end } : { id, ...how })
      }
      const pending: typeof Pending.Type = { id, state: record.state }
      return json(pending, 202, { "retry-after": retryAfter(record) })
    },
  }),
  route({
    method: "GET",
    path: "/v1/jobs/{id}/position",
    operation: "getPosition",
    group: "Jobs",
    summary: "The place of a job in its queue",
    scope: "read",
    responses: [{ status: 200, description: "The place", schema: QueuePlace }],
    problems: ["unsupported"],
    handle: async ({ context, id }) => {
      const { position = null, more = false } = (await withReadDeadline(context.client.position(id))) ?? {}
      return json<typeof QueuePlace.Type>({ position, more })
    },
  }),
  route({
    method: "POST",
    path: "/v1/jobs/{id}/cancel",
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
    handle: async ({ caller, context, id, query }) => {
      const { terminate = false, release = false, state } = query
      const check = state === undefined ? undefined : stillIn(state)
      const record = await cancelJob(context.client.connection, id, { terminate, release }, check)
      return json<typeof Job.Type>(shownTo(caller, jobView(record)))
    },
  }),
  route({
    method: "POST",
    path: "/v1/jobs/{id}/retry",
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
    handle: async ({ caller, context, id, query }) => {
      return json<typeof Job.Type>(
        shownTo(caller, jobView(await rerunJob(context.client.connection, id, undefined, query))),
      )
    },
  }),
  route({
    method: "POST",
    path: "/v1/jobs/{id}/run-now",
    operation: "runJobNow",
    group: "Jobs",
    summary: "Let a scheduled job run at once",
    description:
      "Also one that waits for its next attempt. A job that is in its queue stays as it is; `job-exists` while it runs, or waits for other jobs.",
    scope: "operate",
    responses: [JOB],
    problems: ["job-exists", "already-terminal", "gone", "unsupported"],
    handle: async ({ caller, context, id }) =>
      json<typeof Job.Type>(shownTo(caller, jobView(await runJobNow(context.client.connection, id)))),
  }),
  route({
    method: "DELETE",
    path: "/v1/jobs/{id}",
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
    handle: async ({ context, id, query: { dependents = false, budget } }) => {
      const partial = await deleteJob(context.client.connection, id, { dependents, budget: budgetOf(budget) })
      if (partial === undefined) return new Response(null, { status: 204 })
      return json<typeof Forgotten.Type>({ partial }, 202)
    },
  }),
  route({
    method: "PATCH",
    path: "/v1/jobs/{id}/meta",
    operation: "patchMeta",
    group: "Jobs",
    summary: "Change the meta data of a job",
    description:
      "A merge patch (RFC 7396): fields are set, `null` removes one. Where the handler changes the same field of a job that goes on, the value that is given here stays.",
    scope: "admin",
    body: { "application/json": MetaPatch },
    responses: [JOB],
    problems: ["invalid-json", "unsupported-content-type", "too-large", "gone"],
    handle: async (request) => {
      const { caller, context, id } = request
      const patch = await bodyOf(request)
      return json<typeof Job.Type>(shownTo(caller, jobView(await patchMeta(context.client.connection, id, patch))))
    },
  }),
]

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
    responses: [{ status: 200, description: "The causes", schema: Why }],
    problems: ["gone"],
    handle: async ({ caller, context, id }) => {
      const outage = context.outage()
      const why = outage === undefined ? await context.client.why(id) : transportDown(id, outage)
      return json<typeof Why.Type>(caller.may("payload") ? why : withoutTenant(why))
    },
  }),
]
