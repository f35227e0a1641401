/** Routes that control queues and workers: pause, limit, purge, suspend, inspect, command, and revoke by header. */

import { parseQueueChanges } from "../cluster/queue-limits.ts"
import { COMMAND_NAMES, COMMANDS, type CommandName, takesOf } from "../cluster/remote-command.ts"
import { parseRevoke, type Revocation } from "../cluster/revocation.ts"
import { CallboardError } from "../errors.ts"
import { compact } from "../protocol/compact.ts"
import { isMap } from "../protocol/guards.ts"
import { type AnswerList, commandRoute, type TARGETS, WORKER_ROUTES } from "../routes/control.ts"
import type { Values } from "../routes/parameter.ts"
import { type emptying, type Purged, QUEUE_ROUTES } from "../routes/queues.ts"
import { REVOCATION_ROUTES } from "../routes/revocations.ts"
import { budgetOf } from "./decisions.ts"
import { withReadDeadline } from "./limits.ts"
import { bodyOf } from "./request-body.ts"
import { json } from "./response.ts"
import { type Route, type RouteRequest, served } from "./route.ts"

/** The arguments of a command, which the worker checks. Fails with `invalid-input` where the body is no object. */
const argumentsOf = (name: string, value: unknown): object => {
  if (isMap(value)) return value
  throw new CallboardError("invalid-input", `the body of ${name} must be an object with its arguments`)
}

const purgeOf = ({ forget = false, budget }: Values<typeof emptying>) => ({ forget, budget: budgetOf(budget) })

const emptied = (report: typeof Purged.Type): Response => json(report, report.partial === undefined ? 200 : 202)

/** Sends a command to workers. One that only reads has no body. */
const commanded = async (name: CommandName, request: RouteRequest<typeof TARGETS>): Promise<Response> => {
  const { context, query } = request
  const hasArguments = COMMANDS[name].kind === "control" && takesOf(name).length > 0
  const given = hasArguments ? argumentsOf(name, await bodyOf(request)) : {}
  const { workers, timeout } = query
  const answers = await context.client.control(name, given, compact({ workers, timeout }))
  return json<typeof AnswerList.Type>({ answers })
}

const queueRoutes = served(QUEUE_ROUTES, {
  "POST /v1/queues/{id}/pause": async ({ context, caller, id }) => {
    await context.client.pause(id, compact({ by: caller.name }))
    return undefined
  },
  "POST /v1/queues/{id}/resume": async ({ context, id }) => {
    await context.client.resume(id)
    return undefined
  },
  "PATCH /v1/queues/{id}": async (request) => {
    const { context, caller, id } = request
    const changes = parseQueueChanges(await bodyOf(request))
    await context.client.limitQueue(id, { ...changes, ...compact({ by: caller.name }) })
    return undefined
  },
  "POST /v1/queues/{id}/purge": async ({ context, id, query }) =>
    emptied(await context.client.purge(id, purgeOf(query))),
  "DELETE /v1/queues/{id}": async ({ context, id, query }) =>
    emptied(await context.client.deleteQueue(id, purgeOf(query))),
  "GET /v1/queues/{id}/jobs": async ({ context, id, query }) => ({
    ids: await withReadDeadline(context.client.waiting(id, query)),
  }),
})

const workerRoutes = served(WORKER_ROUTES, {
  "POST /v1/workers/suspend": async ({ context, query }) => {
    await context.client.suspend(query.worker, compact({ ttl: query.ttl }))
    return undefined
  },
  "POST /v1/workers/resume": async ({ context, query }) => {
    await context.client.unsuspend(query.worker)
    return undefined
  },
})

const commandRoutes = COMMAND_NAMES.flatMap((name) => {
  const [address, description] = commandRoute(name)
  return served(
    { [address]: description },
    { [address]: (request: RouteRequest<typeof TARGETS>) => commanded(name, request) },
  )
})

export const controlRoutes: ReadonlyArray<Route> = [...queueRoutes, ...workerRoutes, ...commandRoutes]

export const revocationRoutes: ReadonlyArray<Route> = served(REVOCATION_ROUTES, {
  "POST /v1/revocations": async (request) => {
    const options = parseRevoke(await bodyOf(request))
    return json<typeof Revocation.Type>(await request.context.client.revoke(options), 201)
  },
  "GET /v1/revocations": async ({ context }) => ({ revocations: await withReadDeadline(context.client.revocations()) }),
  "DELETE /v1/revocations/{id}": async ({ context, id }) => {
    await context.client.lift(id)
    return undefined
  },
})
