/** Routes of job boards: jobs are posted, claimed (also by a request that waits for one), extended, consumed. */
import * as Schema from "effect/Schema"
import { latest } from "../async/timers.ts"
import type { Board } from "../board/board.ts"
import type { BoardEvent } from "../board/notifications.ts"
import {
  ClaimRequest,
  ExtendRequest,
  OwnerRequest,
  PostRequest,
  parseClaim,
  parseExtend,
  parseOwner,
  parsePost,
} from "../board/requests.ts"
import {
  BoardComplete,
  BoardCount,
  BoardEntities,
  BoardExtended,
  BoardJobList,
  BoardJobView,
  BoardTrash,
  viewOf,
} from "../board/view.ts"
import type { Client } from "../client/client.ts"
import type { ErrorCode } from "../errors.ts"
import { posted } from "../protocol/board.ts"
import { compact } from "../protocol/compact.ts"
import { type SseMessage, stream } from "./events.ts"
import { Wait } from "./job.ts"
import { withAnySignal } from "./job-record.ts"
import { DEFAULT_PAGE, pageLimit, withReadDeadline } from "./limits.ts"
import { boolean, integer, type Parameters, text } from "./parameter.ts"
import { bodyOf } from "./request-body.ts"
import { json } from "./response.ts"
import { type Definition, type Route, type RouteRequest, route } from "./route.ts"

/**
 * Most boards that are connected at a time. Beyond that, of the boards on which no request waits, the one that was used
 * least recently is closed.
 */
const MAX_BOARDS = 1_000

/** How many requests wait on a board, or stream what happens to it. */
const waiting = new WeakMap<Board, number>()
const count = (board: Board, by: number): void => void waiting.set(board, (waiting.get(board) ?? 0) + by)

const held = new WeakMap<Client, Map<string, Board>>()

/** The board of a request: one for all requests, so that claims of the next job share what they have read. */
const boardOf = ({ context: { client }, board: name }: Pick<RouteRequest, "context" | "board">): Board => {
  const boards = held.get(client) ?? new Map<string, Board>()
  held.set(client, boards)
  const board = boards.get(name) ?? client.board(name)
  boards.delete(name)
  boards.set(name, board)
  for (const [oldest, unused] of boards) {
    if (boards.size <= MAX_BOARDS) break
    if (unused === board || waiting.get(unused)) continue
    boards.delete(oldest)
    void unused.close()
  }
  return board
}

/**
 * How long a claim over HTTP holds without `expiry`, in seconds. Nothing renews it, since it belongs to no process that
 * is known here.
 */
const DEFAULT_EXPIRY = 60

const JOB = { status: 200, description: "The job", schema: BoardJobView }
const ended = (description: string) => ({ status: 200, description, schema: BoardJobView })

const BoardNotification = Schema.Struct({
  event: Schema.Literals(["POSTED", "REMOVAL", "UNREADABLE"]),
  id: Schema.optionalKey(Schema.String),
  name: Schema.optionalKey(Schema.String),
  priority: Schema.optionalKey(Schema.String),
  key: Schema.optionalKey(Schema.String.annotate({ description: "Of an entry that cannot be read" })),
}).annotate({ identifier: "BoardNotification" })

const BODY: ReadonlyArray<ErrorCode> = ["invalid-json", "invalid-input", "unsupported-content-type", "too-large"]
const OWNER: ReadonlyArray<ErrorCode> = [...BODY, "not-owner"]

const Limit = pageLimit("Most jobs on a page")
const Cursor = Schema.String.check(Schema.isMaxLength(1_024)).annotate({
  description: "Where to go on: the `next` of the page before",
})

/** A route of a board. Each of them may answer that the transport of the board is away, or that the board is closed. */
const boardRoute = <const P extends Parameters = Record<never, never>>(
  definition: Omit<Definition<P>, "group" | "idDescription">,
): Route =>
  route({
    ...definition,
    group: "Boards",
    idDescription: "Id of the job of the board",
    problems: ["not-connected", "overloaded", ...(definition.problems ?? [])],
  })

const ownerRoute = (how: "consume" | "abandon" | "trash", summary: string, description: string): Route =>
  boardRoute({
    method: "POST",
    path: `/v1/boards/{board}/jobs/{id}/${how}`,
    operation: `${how}BoardJob`,
    summary,
    description,
    scope: "submit",
    body: { "application/json": OwnerRequest },
    responses: [ended("The job, with its story")],
    problems: OWNER,
    handle: async (request) => {
      const { owner, ...options } = parseOwner(await bodyOf(request))
      return json<BoardJobView>(await boardOf(request)[how](request.id, owner, options))
    },
  })

/** Waits with a signal that fires when the client disconnects or the service stops. */
const whileHere = async <A>(
  { c, context }: RouteRequest,
  board: Board,
  wait: (signal: AbortSignal) => Promise<A>,
): Promise<A> => {
  count(board, 1)
  try {
    return await withAnySignal([c.req.raw.signal, context.closing], wait)
  } finally {
    count(board, -1)
  }
}

const messageOf = (told: BoardEvent): SseMessage => ({ event: told.event, data: JSON.stringify(told) })

export const boardRoutes: ReadonlyArray<Route> = [
  boardRoute({
    method: "POST",
    path: "/v1/boards/{board}/jobs",
    operation: "postBoardJob",
    summary: "Post a job to a board",
    description: "A board comes into being with its first job.",
    scope: "submit",
    body: { "application/json": PostRequest },
    responses: [{ status: 201, description: "The job", schema: BoardJobView }],
    problems: BODY,
    handle: async (request) => {
      const { name, ...options } = parsePost(await bodyOf(request))
      const { id, book, ...job } = await boardOf(request).post(name, options)
      const now = job.createdAt.getTime()
      // The job is not read again: if that failed, the client would post a second job.
      const record = posted(id, { ...job, ...(book === null ? {} : { book }) }, now)
      return json<BoardJobView>(viewOf({ ...record, sequence: job.sequence }, now), 201)
    },
  }),
  boardRoute({
    method: "GET",
    path: "/v1/boards/{board}/jobs",
    operation: "listBoardJobs",
    summary: "The jobs of a board, by priority, then in the order of posting",
    description: "With `wait` the answer waits until there is a job; `not-found` if there is none by then.",
    scope: "read",
    showsPayload: true,
    query: {
      unclaimed: boolean(Schema.Boolean.annotate({ description: "Only jobs that can be claimed" })),
      limit: integer(Limit),
      cursor: text(Cursor),
      wait: text(Wait),
    },
    responses: [{ status: 200, description: "A page of jobs", schema: BoardJobList }],
    problems: ["not-found"],
    handle: async (request) => {
      const { unclaimed: onlyUnclaimed = false, limit = DEFAULT_PAGE, cursor, wait } = request.query
      const board = boardOf(request)
      if (wait !== undefined) await whileHere(request, board, (signal) => board.wait(wait, signal))
      const after = compact({ after: cursor })
      return json<typeof BoardJobList.Type>(await withReadDeadline(board.list({ limit, onlyUnclaimed, ...after })))
    },
  }),
  boardRoute({
    method: "POST",
    path: "/v1/boards/{board}/claim",
    operation: "takeBoardJob",
    summary: "Claim the first job that can be claimed",
    description: `With \`wait\` the answer waits for one; \`not-found\` if there is none by then. A claim without \`expiry\` holds for ${DEFAULT_EXPIRY} seconds: extend it.`,
    scope: "submit",
    query: { wait: text(Wait) },
    body: { "application/json": ClaimRequest },
    responses: [JOB],
    problems: [...BODY, "not-found"],
    handle: async (request) => {
      const { owner, expiry = DEFAULT_EXPIRY } = parseClaim(await bodyOf(request))
      const { wait = 0 } = request.query
      const board = boardOf(request)
      const claim = await whileHere(request, board, (signal) => board.take(owner, { expiry, wait, signal }))
      return json<BoardJobView>(claim.view)
    },
  }),
  boardRoute({
    method: "GET",
    path: "/v1/boards/{board}/jobs/{id}",
    operation: "getBoardJob",
    summary: "A job of a board: its state, its owner, its claims and its story",
    scope: "read",
    showsPayload: true,
    responses: [JOB],
    handle: async (request) => json<BoardJobView>(await withReadDeadline(boardOf(request).find(request.id))),
  }),
  boardRoute({
    method: "POST",
    path: "/v1/boards/{board}/jobs/{id}/claim",
    operation: "claimBoardJob",
    summary: "Claim a job",
    description: `A claim without \`expiry\` holds for ${DEFAULT_EXPIRY} seconds: extend it.`,
    scope: "submit",
    body: { "application/json": ClaimRequest },
    responses: [JOB],
    problems: [...BODY, "unclaimable"],
    handle: async (request) => {
      const { owner, expiry = DEFAULT_EXPIRY } = parseClaim(await bodyOf(request))
      return json<BoardJobView>((await boardOf(request).claim(request.id, owner, { expiry })).view)
    },
  }),
  boardRoute({
    method: "POST",
    path: "/v1/boards/{board}/jobs/{id}/extend",
    operation: "extendBoardJob",
    summary: "Set how long a claim holds from now, up or down",
    scope: "submit",
    body: { "application/json": ExtendRequest },
    responses: [{ status: 200, description: "Whether a claim held", schema: BoardExtended }],
    problems: OWNER,
    handle: async (request) => {
      const { expiry, ...options } = parseExtend(await bodyOf(request))
      const extended = await boardOf(request).extendExpiry(request.id, expiry, options)
      return json<typeof BoardExtended.Type>({ extended })
    },
  }),
  ownerRoute("consume", "Take a finished job off the board", "Nothing of it is kept: the answer has its whole story."),
  ownerRoute("abandon", "Give a claim up", "The job can be claimed again."),
  ownerRoute("trash", "Put a job into the trash", "From there it can be restored."),
  boardRoute({
    method: "GET",
    path: "/v1/boards/{board}/jobs/{id}/complete",
    operation: "awaitBoardJob",
    summary: "Whether a job was consumed or trashed",
    description: "With `wait` the answer waits for it.",
    scope: "read",
    showsPayload: true,
    query: { wait: text(Wait) },
    responses: [{ status: 200, description: "Whether it is complete", schema: BoardComplete }],
    handle: async (request) => {
      const { wait = 0 } = request.query
      const board = boardOf(request)
      const complete = await whileHere(request, board, (signal) => board.waitFor(request.id, { timeout: wait, signal }))
      return json<typeof BoardComplete.Type>({ complete })
    },
  }),
  boardRoute({
    method: "GET",
    path: "/v1/boards/{board}/count",
    operation: "countBoardJobs",
    summary: "How many jobs are on a board",
    description: "Reads the whole board.",
    scope: "read",
    responses: [{ status: 200, description: "Their number", schema: BoardCount }],
    handle: async (request) => json<typeof BoardCount.Type>({ count: await boardOf(request).count() }),
  }),
  boardRoute({
    method: "GET",
    path: "/v1/boards/{board}/trash",
    operation: "listBoardTrash",
    summary: "The jobs in the trash of a board",
    scope: "read",
    showsPayload: true,
    query: { limit: integer(Limit), cursor: text(Cursor) },
    responses: [{ status: 200, description: "A page of jobs", schema: BoardTrash }],
    handle: async (request) => {
      const { limit = DEFAULT_PAGE, cursor } = request.query
      const after = compact({ after: cursor })
      const jobs = await withReadDeadline(boardOf(request).trashed({ limit, ...after }))
      const last = jobs.at(-1)
      const more = jobs.length === limit && last !== undefined ? { next: last.id } : {}
      return json<typeof BoardTrash.Type>({ jobs, ...more })
    },
  }),
  boardRoute({
    method: "GET",
    path: "/v1/boards/{board}/trash/{id}",
    operation: "getBoardTrash",
    summary: "A job in the trash of a board",
    scope: "read",
    showsPayload: true,
    responses: [JOB],
    handle: async (request) => json<BoardJobView>(await withReadDeadline(boardOf(request).trashedJob(request.id))),
  }),
  boardRoute({
    method: "POST",
    path: "/v1/boards/{board}/trash/{id}/restore",
    operation: "restoreBoardJob",
    summary: "Put a job from the trash back on the board",
    description: "Under its id and at its old place in line.",
    scope: "submit",
    responses: [JOB],
    handle: async (request) => json<BoardJobView>(await (await boardOf(request).restore(request.id)).find()),
  }),
  boardRoute({
    method: "GET",
    path: "/v1/boards/{board}/entities",
    operation: "listBoardEntities",
    summary: "The processes that work for a board",
    scope: "read",
    responses: [{ status: 200, description: "Those that live", schema: BoardEntities }],
    handle: async (request) =>
      json<typeof BoardEntities.Type>({ entities: await withReadDeadline(boardOf(request).entities()) }),
  }),
  boardRoute({
    method: "GET",
    path: "/v1/boards/{board}/events",
    operation: "followJobBoard",
    summary: "What is posted to a board, and what goes, from now on",
    description:
      "Server-sent events: `POSTED`, `REMOVAL` (consumed or trashed) and `UNREADABLE`. Best effort: nothing is replayed.",
    scope: "read",
    showsPayload: true,
    responses: [
      {
        status: 200,
        description: "A stream; the data of each event is a BoardNotification as JSON",
        schema: BoardNotification,
        contentType: "text/event-stream",
      },
    ],
    handle: (request) => {
      const board = boardOf(request)
      return stream(request, async function* (signal) {
        const told = latest<BoardEvent>(async (push, listening) => {
          const stop = await board.on("*", push)
          // The client may have disconnected by now.
          if (listening.aborted) stop()
          else listening.addEventListener("abort", stop, { once: true })
        }, signal)
        count(board, 1)
        try {
          for await (const each of told) yield messageOf(each)
        } finally {
          count(board, -1)
        }
      })
    },
  }),
]
