/** Routes that control queues and workers: pause, purge, suspend, inspect, command, and revoke by header. */
import * as Schema from "effect/Schema"
import { COMMANDS, isCommand } from "../cluster/remote-command.ts"
import { parseRevoke, Revocation, RevokeOptions } from "../cluster/revocation.ts"
import { CallboardError } from "../errors.ts"
import { WaitingJobs } from "../jobs/lists.ts"
import { PartlyDone } from "../jobs/responses.ts"
import { compact } from "../protocol/compact.ts"
import { isMap } from "../protocol/guards.ts"
import { bounded, budgetOf, partly } from "./decisions.ts"
import { withReadDeadline } from "./limits.ts"
import { boolean, integer, list, text, type Values } from "./parameter.ts"
import { bodyOf } from "./request-body.ts"
import { json } from "./response.ts"
import { type Route, route } from "./route.ts"

const Text = Schema.String
const Names = Schema.Array(Text).annotate({ description: "Only these workers, by name; all that live otherwise" })
const Timeout = Text.annotate({ description: "Longest wait for answers, 1 second if nothing is said: `500ms`" })

const AnswerList = Schema.Struct({
  answers: Schema.Array(
    Schema.Struct({
      worker: Text,
      value: Schema.optionalKey(Schema.Unknown.annotate({ description: "What it answered" })),
      error: Schema.optionalKey(
        Text.annotate({ description: "Why there is no value; also for a worker that is silent" }),
      ),
    }).annotate({ identifier: "WorkerAnswer" }),
  ),
}).annotate({ identifier: "AnswerList" })

const TARGETS = { workers: list(Names), timeout: text(Timeout) } as const

const commandOptions = ({
  workers,
  timeout,
}: {
  readonly workers?: ReadonlyArray<string>
  readonly timeout?: string
}) => compact({ workers, timeout })

const camel = (name: string): string => name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())

/** Commands whose answers hold the arguments of tasks. */
const SHOWS_PAYLOAD = new Set(["active", "reserved", "put-off"])

const inspectRoute = (name: string, summary: string): Route =>
  route({
    method: "GET",
    path: `/v1/inspect/${name}`,
    operation: `inspect${camel(`-${name}`)}`,
    group: "Workers",
    summary,
    scope: "read",
    ...(SHOWS_PAYLOAD.has(name) ? { showsPayload: true } : {}),
    query: TARGETS,
    responses: [{ status: 200, description: "What each worker answered", schema: AnswerList }],
    problems: ["not-found"],
    handle: async ({ context, query }) =>
      json<typeof AnswerList.Type>({
        answers: isCommand(name) ? await context.client.control(name, {}, commandOptions(query)) : [],
      }),
  })

const controlRoute = (name: string, summary: string, takes: ReadonlyArray<string>): Route =>
  route({
    method: "POST",
    path: `/v1/control/${name}`,
    operation: `control${camel(`-${name}`)}`,
    group: "Workers",
    summary,
    ...(takes.length === 0 ? {} : { description: `The body is an object with ${takes.join(", ")}.` }),
    scope: "admin",
    query: TARGETS,
    ...(takes.length === 0 ? {} : { body: { "application/json": Schema.Record(Text, Schema.Unknown) } }),
    responses: [{ status: 200, description: "What each worker answered", schema: AnswerList }],
    problems: ["invalid-json", "unsupported-content-type", "too-large", "not-found"],
    handle: async (request) => {
      const { c, context, query } = request
      const given = takes.length === 0 && !hasBody(c.req.raw) ? {} : argumentsOf(name, await bodyOf(request))
      const answers = isCommand(name) ? await context.client.control(name, given, commandOptions(query)) : []
      return json<typeof AnswerList.Type>({ answers })
    },
  })

const hasBody = ({ body, headers }: Request): boolean => body !== null && headers.get("content-length") !== "0"

/** The arguments of a command, which the worker checks. Fails with `invalid-input` where the body is no object. */
const argumentsOf = (name: string, value: unknown): object => {
  if (isMap(value)) return value
  throw new CallboardError("invalid-input", `the body of ${name} must be an object with its arguments`)
}

const remoteRoutes: ReadonlyArray<Route> = Object.entries(COMMANDS).map(([name, { kind, summary, takes }]) =>
  kind === "inspect" ? inspectRoute(name, summary) : controlRoute(name, summary, takes),
)

const Purged = Schema.Struct({
  purged: Schema.Int.annotate({ description: "How many tasks were taken off the queue" }),
  partial: Schema.optionalKey(PartlyDone),
}).annotate({ identifier: "Purged" })

const emptying = { forget: boolean(Schema.Boolean.annotate({ description: "Forget the jobs as well" })), ...bounded }

const purgeOf = ({ forget = false, budget }: Values<typeof emptying>) => ({ forget, budget: budgetOf(budget) })

const emptied = (report: typeof Purged.Type): Response => json(report, report.partial === undefined ? 200 : 202)

const Worker = text(Text.annotate({ description: "Its name; all workers otherwise" }))

export const controlRoutes: ReadonlyArray<Route> = [
  route({
    method: "POST",
    path: "/v1/queues/{id}/pause",
    idDescription: "Name of the queue",
    operation: "pauseQueue",
    group: "Service",
    summary: "Let a queue take tasks and give none out",
    scope: "operate",
    responses: [{ status: 204, description: "It is paused" }],
    handle: async ({ context, caller, id }) => {
      await context.client.pause(id, compact({ by: caller.name }))
      return new Response(null, { status: 204 })
    },
  }),
  route({
    method: "POST",
    path: "/v1/queues/{id}/resume",
    idDescription: "Name of the queue",
    operation: "resumeQueue",
    group: "Service",
    summary: "Let a paused queue give out tasks again",
    scope: "operate",
    responses: [{ status: 204, description: "It is not paused any more" }],
    handle: async ({ context, id }) => {
      await context.client.resume(id)
      return new Response(null, { status: 204 })
    },
  }),
  route({
    method: "POST",
    path: "/v1/queues/{id}/purge",
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
    handle: async ({ context, id, query }) => emptied(await context.client.purge(id, purgeOf(query))),
  }),
  route({
    method: "DELETE",
    path: "/v1/queues/{id}",
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
    handle: async ({ context, id, query }) => emptied(await context.client.deleteQueue(id, purgeOf(query))),
  }),
  route({
    method: "GET",
    path: "/v1/queues/{id}/jobs",
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
    handle: async ({ context, id, query }) =>
      json<typeof WaitingJobs.Type>({ ids: await withReadDeadline(context.client.waiting(id, query)) }),
  }),
  route({
    method: "POST",
    path: "/v1/workers/suspend",
    operation: "suspendWorkers",
    group: "Workers",
    summary: "Let a worker, or all of them, take no more tasks",
    description: "What runs goes on. Holds for workers that start later, too.",
    scope: "operate",
    query: {
      worker: Worker,
      ttl: text(Text.annotate({ description: "Ends by itself after this long: `10 minutes`" })),
    },
    responses: [{ status: 204, description: "They are suspended" }],
    handle: async ({ context, query }) => {
      await context.client.suspend(query.worker, compact({ ttl: query.ttl }))
      return new Response(null, { status: 204 })
    },
  }),
  route({
    method: "POST",
    path: "/v1/workers/resume",
    operation: "resumeWorkers",
    group: "Workers",
    summary: "Let a worker, or all of them, take tasks again",
    scope: "operate",
    query: { worker: Worker },
    responses: [{ status: 204, description: "They are not suspended any more" }],
    handle: async ({ context, query }) => {
      await context.client.unsuspend(query.worker)
      return new Response(null, { status: 204 })
    },
  }),
  ...remoteRoutes,
]

const RevocationList = Schema.Struct({ revocations: Schema.Array(Revocation) }).annotate({
  identifier: "RevocationList",
})

export const revocationRoutes: ReadonlyArray<Route> = [
  route({
    method: "POST",
    path: "/v1/revocations",
    operation: "revoke",
    group: "Revocations",
    summary: "Cancel every task that carries a header with one of some values",
    description:
      "Holds until it lapses or is lifted, also for tasks that come later and workers that start later. Waiting tasks end when their turn comes, running ones at once.",
    scope: "admin",
    body: { "application/json": RevokeOptions },
    responses: [{ status: 201, description: "The revocation", schema: Revocation }],
    problems: ["invalid-input", "invalid-json", "unsupported-content-type", "too-large", "unsupported"],
    handle: async (request) => {
      const options = parseRevoke(await bodyOf(request))
      return json<typeof Revocation.Type>(await request.context.client.revoke(options), 201)
    },
  }),
  route({
    method: "GET",
    path: "/v1/revocations",
    operation: "listRevocations",
    group: "Revocations",
    summary: "Revocations that hold now, oldest first",
    scope: "read",
    // Revocations name values of headers that tasks carry.
    showsPayload: true,
    responses: [{ status: 200, description: "The revocations", schema: RevocationList }],
    handle: async ({ context }) =>
      json<typeof RevocationList.Type>({ revocations: await withReadDeadline(context.client.revocations()) }),
  }),
  route({
    method: "DELETE",
    path: "/v1/revocations/{id}",
    idDescription: "Id of the revocation",
    operation: "liftRevocation",
    group: "Revocations",
    summary: "End a revocation",
    description: "What it has cancelled stays cancelled.",
    scope: "admin",
    responses: [{ status: 204, description: "It is ended" }],
    handle: async ({ context, id }) => {
      await context.client.lift(id)
      return new Response(null, { status: 204 })
    },
  }),
]
