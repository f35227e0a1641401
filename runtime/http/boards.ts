/** Routes of job boards: jobs are posted, claimed (also by a request that waits for one), extended, consumed. */

import { latest } from "../async/timers.ts"
import type { Board } from "../board/board.ts"
import type { BoardEvent } from "../board/notifications.ts"
import { parseClaim, parseExtend, parseOwner, parsePost } from "../board/requests.ts"
import { type BoardJobView, viewOf } from "../board/view.ts"
import type { Client } from "../client/client.ts"
import { posted } from "../protocol/board.ts"
import { compact } from "../protocol/compact.ts"
import { BOARD_ROUTES, DEFAULT_EXPIRY } from "../routes/boards.ts"
import { DEFAULT_PAGE } from "../routes/bounds.ts"
import { type SseMessage, stream } from "./events.ts"
import { withAnySignal } from "./job-record.ts"
import { withReadDeadline } from "./limits.ts"
import { bodyOf } from "./request-body.ts"
import { json } from "./response.ts"
import { type Route, type RouteRequest, served } from "./route.ts"

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

const ended = async (request: RouteRequest, how: "consume" | "abandon" | "trash"): Promise<Response> => {
  const { owner, ...options } = parseOwner(await bodyOf(request))
  return json<BoardJobView>(await boardOf(request)[how](request.id, owner, options))
}

export const boardRoutes: ReadonlyArray<Route> = served(BOARD_ROUTES, {
  "POST /v1/boards/{board}/jobs": async (request) => {
    const { name, ...options } = parsePost(await bodyOf(request))
    const { id, book, ...job } = await boardOf(request).post(name, options)
    const now = job.createdAt.getTime()
    // The job is not read again: if that failed, the client would post a second job.
    const record = posted(id, { ...job, ...(book === null ? {} : { book }) }, now)
    return json<BoardJobView>(viewOf({ ...record, sequence: job.sequence }, now), 201)
  },
  "GET /v1/boards/{board}/jobs": async (request) => {
    const { unclaimed: onlyUnclaimed = false, limit = DEFAULT_PAGE, cursor, wait } = request.query
    const board = boardOf(request)
    if (wait !== undefined) await whileHere(request, board, (signal) => board.wait(wait, signal))
    const after = compact({ after: cursor })
    return withReadDeadline(board.list({ limit, onlyUnclaimed, ...after }))
  },
  "POST /v1/boards/{board}/claim": async (request) => {
    const { owner, expiry = DEFAULT_EXPIRY } = parseClaim(await bodyOf(request))
    const { wait = 0 } = request.query
    const board = boardOf(request)
    const claim = await whileHere(request, board, (signal) => board.take(owner, { expiry, wait, signal }))
    return claim.view
  },
  "GET /v1/boards/{board}/jobs/{id}": async (request) => withReadDeadline(boardOf(request).find(request.id)),
  "POST /v1/boards/{board}/jobs/{id}/claim": async (request) => {
    const { owner, expiry = DEFAULT_EXPIRY } = parseClaim(await bodyOf(request))
    return (await boardOf(request).claim(request.id, owner, { expiry })).view
  },
  "POST /v1/boards/{board}/jobs/{id}/extend": async (request) => {
    const { expiry, ...options } = parseExtend(await bodyOf(request))
    const extended = await boardOf(request).extendExpiry(request.id, expiry, options)
    return { extended }
  },
  "POST /v1/boards/{board}/jobs/{id}/consume": (request) => ended(request, "consume"),
  "POST /v1/boards/{board}/jobs/{id}/abandon": (request) => ended(request, "abandon"),
  "POST /v1/boards/{board}/jobs/{id}/trash": (request) => ended(request, "trash"),
  "GET /v1/boards/{board}/jobs/{id}/complete": async (request) => {
    const { wait = 0 } = request.query
    const board = boardOf(request)
    const complete = await whileHere(request, board, (signal) => board.waitFor(request.id, { timeout: wait, signal }))
    return { complete }
  },
  "GET /v1/boards/{board}/count": async (request) => ({ count: await boardOf(request).count() }),
  "GET /v1/boards/{board}/trash": async (request) => {
    const { limit = DEFAULT_PAGE, cursor } = request.query
    const after = compact({ after: cursor })
    const jobs = await withReadDeadline(boardOf(request).trashed({ limit, ...after }))
    const last = jobs.at(-1)
    const more = jobs.length === limit && last !== undefined ? { next: last.id } : {}
    return { jobs, ...more }
  },
  "GET /v1/boards/{board}/trash/{id}": async (request) =>
    await withReadDeadline(boardOf(request).trashedJob(request.id)),
  "POST /v1/boards/{board}/trash/{id}/restore": async (request) =>
    await (await boardOf(request).restore(request.id)).find(),
  "GET /v1/boards/{board}/entities": async (request) => ({
    entities: await withReadDeadline(boardOf(request).entities()),
  }),
  "GET /v1/boards/{board}/events": (request) => {
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
})
