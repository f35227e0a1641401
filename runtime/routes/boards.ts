/** Routes of job boards: jobs are posted, claimed (also by a request that waits for one), extended, consumed. */
import * as Schema from "effect/Schema"
import { ClaimRequest, ExtendRequest, OwnerRequest, PostRequest } from "../board/requests.ts"
import {
  BoardComplete,
  BoardCount,
  BoardEntities,
  BoardExtended,
  BoardJobList,
  BoardJobView,
  BoardTrash,
} from "../board/view.ts"
import type { ErrorCode } from "../errors.ts"
import { pageLimit } from "./bounds.ts"
import type { Description, Descriptions } from "./description.ts"
import { boolean, integer, text } from "./parameter.ts"
import { Wait } from "./waiting.ts"

/**
 * How long a claim over HTTP holds without `expiry`, in seconds. Nothing renews it, since it belongs to no process that
 * is known here.
 */
export const DEFAULT_EXPIRY = 60

const JOB = { status: 200, description: "The job", schema: BoardJobView } as const
const ENDED = { status: 200, description: "The job, with its history", schema: BoardJobView } as const

const BoardNotification = Schema.Struct({
  event: Schema.Literals(["POSTED", "REMOVAL", "UNREADABLE"]),
  id: Schema.optionalKey(Schema.String),
  name: Schema.optionalKey(Schema.String),
  priority: Schema.optionalKey(Schema.String),
  key: Schema.optionalKey(Schema.String.annotate({ description: "For an entry that cannot be read" })),
}).annotate({ identifier: "BoardNotification" })

const BODY: ReadonlyArray<ErrorCode> = ["invalid-json", "invalid-input", "unsupported-content-type", "too-large"]
const OWNER: ReadonlyArray<ErrorCode> = [...BODY, "not-owner"]

const Limit = pageLimit("Maximum number of jobs on a page")
const Cursor = Schema.String.check(Schema.isMaxLength(1_024)).annotate({
  description: "Where to continue: the `next` of the previous page",
})

/** A route of a board. Each of them may answer that the transport of the board is away, or that the board is closed. */
const ofBoard = <const D extends Omit<Description, "group" | "idDescription">>(description: D) => ({
  ...description,
  group: "Boards",
  idDescription: "Id of the job of the board",
  problems: ["not-connected", "overloaded", ...(description.problems ?? [])] satisfies ReadonlyArray<ErrorCode>,
})

export const BOARD_ROUTES = {
  "POST /v1/boards/{board}/jobs": ofBoard({
    operation: "postBoardJob",
    summary: "Post a job to a board",
    description: "A board exists from its first job on.",
    scope: "submit",
    body: { "application/json": PostRequest },
    responses: [{ status: 201, description: "The job", schema: BoardJobView }],
    problems: BODY,
  }),
  "GET /v1/boards/{board}/jobs": ofBoard({
    operation: "listBoardJobs",
    summary: "The jobs of a board, by priority, then in the order of posting",
    description: "With `wait` the response waits until there is a job; `not-found` if there is none by then.",
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
  }),
  "POST /v1/boards/{board}/claim": ofBoard({
    operation: "takeBoardJob",
    summary: "Claim the first job that can be claimed",
    description: `With \`wait\` the response waits for one; \`not-found\` if there is none by then. A claim without \`expiry\` is valid for ${DEFAULT_EXPIRY} seconds; extend it.`,
    scope: "submit",
    query: { wait: text(Wait) },
    body: { "application/json": ClaimRequest },
    responses: [JOB],
    problems: [...BODY, "not-found"],
  }),
  "GET /v1/boards/{board}/jobs/{id}": ofBoard({
    operation: "getBoardJob",
    summary: "A job of a board: its state, its owner, its claims and its history",
    scope: "read",
    showsPayload: true,
    responses: [JOB],
  }),
  "POST /v1/boards/{board}/jobs/{id}/claim": ofBoard({
    operation: "claimBoardJob",
    summary: "Claim a job",
    description: `A claim without \`expiry\` is valid for ${DEFAULT_EXPIRY} seconds; extend it.`,
    scope: "submit",
    body: { "application/json": ClaimRequest },
    responses: [JOB],
    problems: [...BODY, "unclaimable"],
  }),
  "POST /v1/boards/{board}/jobs/{id}/extend": ofBoard({
    operation: "extendBoardJob",
    summary: "Set the remaining time of a claim, longer or shorter",
    scope: "submit",
    body: { "application/json": ExtendRequest },
    responses: [{ status: 200, description: "Whether the claim was still valid", schema: BoardExtended }],
    problems: OWNER,
  }),
  "POST /v1/boards/{board}/jobs/{id}/consume": ofBoard({
    operation: "consumeBoardJob",
    summary: "Remove a finished job from the board",
    description: "Nothing is kept; the response contains its whole history.",
    scope: "submit",
    body: { "application/json": OwnerRequest },
    responses: [ENDED],
    problems: OWNER,
  }),
  "POST /v1/boards/{board}/jobs/{id}/abandon": ofBoard({
    operation: "abandonBoardJob",
    summary: "Give up a claim",
    description: "The job can be claimed again.",
    scope: "submit",
    body: { "application/json": OwnerRequest },
    responses: [ENDED],
    problems: OWNER,
  }),
  "POST /v1/boards/{board}/jobs/{id}/trash": ofBoard({
    operation: "trashBoardJob",
    summary: "Move a job to the trash",
    description: "It can be restored from there.",
    scope: "submit",
    body: { "application/json": OwnerRequest },
    responses: [ENDED],
    problems: OWNER,
  }),
  "GET /v1/boards/{board}/jobs/{id}/complete": ofBoard({
    operation: "awaitBoardJob",
    summary: "Whether a job was consumed or trashed",
    description: "With `wait` the response waits for it.",
    scope: "read",
    showsPayload: true,
    query: { wait: text(Wait) },
    responses: [{ status: 200, description: "Whether it is complete", schema: BoardComplete }],
  }),
  "GET /v1/boards/{board}/count": ofBoard({
    operation: "countBoardJobs",
    summary: "Number of jobs on a board",
    description: "Reads the whole board.",
    scope: "read",
    responses: [{ status: 200, description: "Their number", schema: BoardCount }],
  }),
  "GET /v1/boards/{board}/trash": ofBoard({
    operation: "listBoardTrash",
    summary: "The jobs in the trash of a board",
    scope: "read",
    showsPayload: true,
    query: { limit: integer(Limit), cursor: text(Cursor) },
    responses: [{ status: 200, description: "A page of jobs", schema: BoardTrash }],
  }),
  "GET /v1/boards/{board}/trash/{id}": ofBoard({
    operation: "getBoardTrash",
    summary: "A job in the trash of a board",
    scope: "read",
    showsPayload: true,
    responses: [JOB],
  }),
  "POST /v1/boards/{board}/trash/{id}/restore": ofBoard({
    operation: "restoreBoardJob",
    summary: "Put a job from the trash back on the board",
    description: "It keeps its id and its place in the order.",
    scope: "submit",
    responses: [JOB],
  }),
  "GET /v1/boards/{board}/entities": ofBoard({
    operation: "listBoardEntities",
    summary: "The processes that work on a board",
    scope: "read",
    responses: [{ status: 200, description: "The live processes", schema: BoardEntities }],
  }),
  "GET /v1/boards/{board}/events": ofBoard({
    operation: "followJobBoard",
    summary: "Jobs posted to a board and removed from it, from now on",
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
  }),
} as const satisfies Descriptions
