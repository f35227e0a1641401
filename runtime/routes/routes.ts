/** All routes, by their addresses: types alone, so that a client that imports them loads no schema. */
import type { BOARD_ROUTES } from "./boards.ts"
import type { WORKER_ROUTES } from "./control.ts"
import type { AnswerOf, BodyOf, QueryOf } from "./description.ts"
import type { EVENT_ROUTES } from "./events.ts"
import type { GROUP_ROUTES } from "./groups.ts"
import type { JOB_ROUTES, WHY_ROUTES } from "./job.ts"
import type { DEAD_ROUTES, JOBS_ROUTES } from "./jobs.ts"
import type { LIMIT_ROUTES } from "./limits.ts"
import type { QUEUE_ROUTES } from "./queues.ts"
import type { REVOCATION_ROUTES } from "./revocations.ts"
import type { SCHEDULE_ROUTES } from "./schedules.ts"
import type { HEALTH_ROUTES, SERVICE_ROUTES } from "./service.ts"
import type { STATISTICS_ROUTES } from "./statistics.ts"
import type { SUBMIT_ROUTES } from "./submit.ts"

type Routes = typeof SUBMIT_ROUTES &
  typeof JOB_ROUTES &
  typeof WHY_ROUTES &
  typeof JOBS_ROUTES &
  typeof GROUP_ROUTES &
  typeof EVENT_ROUTES &
  typeof DEAD_ROUTES &
  typeof SCHEDULE_ROUTES &
  typeof BOARD_ROUTES &
  typeof REVOCATION_ROUTES &
  typeof STATISTICS_ROUTES &
  typeof LIMIT_ROUTES &
  typeof SERVICE_ROUTES &
  typeof HEALTH_ROUTES &
  typeof QUEUE_ROUTES &
  typeof WORKER_ROUTES

/** The address of a route. */
export type RouteAddress = keyof Routes

/** What a route answers with if it succeeds; `undefined`: the answer has no body. */
export type Answer<A extends RouteAddress> = AnswerOf<Routes[A]>

type Nothing = Record<never, never>

/** What fills the places in the path of an address. */
type InPath<A> = (A extends `${string}{id}${string}` ? { readonly id: string } : Nothing) &
  (A extends `${string}{board}${string}` ? { readonly board: string } : Nothing) &
  (A extends `${string}{name}${string}` ? { readonly name: string } : Nothing)

type InBody<A extends RouteAddress> =
  BodyOf<Routes[A]> extends undefined ? Nothing : { readonly body: BodyOf<Routes[A]> }

/** Values that are `undefined` are left out of the query. */
type InQuery<A extends RouteAddress> = {
  readonly query?: { readonly [K in keyof QueryOf<Routes[A]>]?: QueryOf<Routes[A]>[K] | undefined }
}

/** What a request to a route takes: what its path, query and body hold. */
export type RouteRequest<A extends RouteAddress> = InPath<A> & InBody<A> & InQuery<A>
