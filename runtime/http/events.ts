/** Server-sent events: of one job, replayed from its record and resumable, and of all jobs, from now on. */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { Context } from "hono"
import { streamSSE } from "hono/streaming"
import { latest } from "../async/timers.ts"
import { listenToEvents, type ReceivedEvent, TypePatterns, typeFilter } from "../cluster/events.ts"
import { EventId } from "../jobs/handle.ts"
import { BoardEvent, type JobEvent, JobEventSchema, summaryOf } from "../jobs/lists.ts"
import { boardEventOf, followJob } from "../jobs/tracking/following.ts"
import { issueOf } from "../options/check.ts"
import { refuseInput } from "../options/refuse.ts"
import { renderJson } from "../protocol/codec/json.ts"
import type { JobRecord } from "../protocol/record.ts"
import { isTerminal } from "../protocol/state.ts"
import { TransportError } from "../transport/mod.ts"
import type { Caller } from "./access.ts"
import { recordOf } from "./job-record.ts"
import { boolean, list, text } from "./parameter.ts"
import { type Route, type RouteRequest, route } from "./route.ts"
import { WorkerEvent } from "./schema.ts"

export interface SseMessage {
  readonly event: string
  readonly data: string
  readonly id?: string
}

/** How soon a browser connects again after a stream has broken, in milliseconds. */
const RECONNECT_MS = 1_000

const STREAM_HEADERS = {
  "Content-Type": "text/event-stream",
  // Proxies must neither cache nor buffer the stream.
  "Cache-Control": "no-store, no-transform",
  "X-Accel-Buffering": "no",
  "X-Content-Type-Options": "nosniff",
}

/** Streams until `events` ends, the client disconnects, or the service stops. */
export const stream = (
  { c, context, caller }: Pick<RouteRequest, "c" | "context" | "caller">,
  events: (signal: AbortSignal) => AsyncIterable<SseMessage>,
): Response => {
  // The client of a HEAD request neither reads nor closes a stream.
  if (c.req.raw.method === "HEAD") return new Response(null, { headers: STREAM_HEADERS })
  const close = context.budget.stream(caller)
  const response = streamSSE(c, async (out) => {
    const stop = new AbortController()
    const end = () => stop.abort()
    out.onAbort(end)
    context.closing.addEventListener("abort", end)
    let isIdle = true
    const keepAlive = setInterval(() => {
      // The last comment is not sent yet: a client that does not read must not fill the memory with comments.
      if (!isIdle) return
      isIdle = false
      void out.write(": keep-alive\n\n").then(() => {
        isIdle = true
      })
    }, context.keepAliveMs)
    try {
      // Something to send at once: the headers go out with it.
      await out.write(`retry: ${RECONNECT_MS}\n\n`)
      for await (const message of events(stop.signal)) {
        if (stop.signal.aborted) break
        await out.writeSSE(message)
      }
    } catch (cause) {
      // The status line is sent already, so the stream can only be ended; clients reconnect by themselves.
      context.log.debug("a stream of events broke", { cause: String(cause) })
    } finally {
      clearInterval(keepAlive)
      context.closing.removeEventListener("abort", end)
      stop.abort()
      close()
    }
  })
  for (const [name, value] of Object.entries(STREAM_HEADERS)) response.headers.set(name, value)
  return response
}

const messageOf = (event: JobEvent, caller: Caller): SseMessage => {
  const { type } = event
  const data: typeof JobEventSchema.Type =
    type === "transition" || caller.may("payload") ? event : { type, fraction: event.fraction, at: event.at }
  return {
    event: event.type,
    data: JSON.stringify(data),
    ...(event.type === "transition" ? { id: event.id } : {}),
  }
}

const boardMessage = (record: JobRecord): SseMessage | undefined => {
  const change = boardEventOf(record)
  if (change === undefined) return undefined
  const data: typeof BoardEvent.Type = { job: summaryOf(change.job), event: change.event }
  return { event: change.event.type, data: JSON.stringify(data) }
}

const EVENT_TYPE = /^[A-Za-z0-9_-]{1,100}$/

/**
 * The event under its own type, so that a client can listen to that type; a type with other characters is only in the
 * data.
 */
const workerMessage = (event: ReceivedEvent): SseMessage | undefined => {
  // Not by JSON.stringify: an application's event may hold values that it cannot write, such as large integers.
  const data = renderJson(event)
  if (Result.isFailure(data)) return undefined
  return { event: EVENT_TYPE.test(event.type) ? event.type : "event", data: data.success }
}

const decodeEventId = Schema.decodeUnknownResult(EventId)

/**
 * Id of the last event that the client has seen: from the header, or from the query, since an EventSource sends no
 * header at first.
 */
const lastEventId = (c: Context, query: string | undefined): string | undefined => {
  const [field, given] = query === undefined ? ["Last-Event-ID", c.req.header("last-event-id")] : ["lastEventId", query]
  if (given === undefined || given === "") return undefined
  const decoded = decodeEventId(given)
  return Result.isSuccess(decoded) ? decoded.success : refuseInput(field, issueOf(decoded.failure.issue).message)
}

const TYPES = TypePatterns.annotate({
  description:
    "Of what workers and applications tell, only these types, with commas between them; `worker-*` is all that begin so",
})
const JOBS = Schema.Boolean.annotate({ description: "Whether to tell transitions and progress of jobs", default: true })

const ACCESS_TOKEN = Schema.String.annotate({
  description:
    "The token, for an EventSource, which sends no headers; logs of proxies may hold it, so give it the scope `read`",
})
const LAST = Schema.String.annotate({ description: "Like the header `Last-Event-ID`, for those who cannot set one" })

export const eventRoutes: ReadonlyArray<Route> = [
  route({
    method: "GET",
    path: "/v1/jobs/{id}/events",
    operation: "followJob",
    group: "Events",
    summary: "What happens to a job, as it happens",
    description:
      "Server-sent events: `transition` (with an id), replayed from the beginning or after `Last-Event-ID`, then live; `progress` (last value) in between. Ends after the transition that ends the job.",
    scope: "read",
    call: "events()",
    query: { lastEventId: text(LAST), access_token: text(ACCESS_TOKEN) },
    headers: { "Last-Event-ID": { description: "Go on after this event", example: "1.2" } },
    responses: [
      {
        status: 200,
        description: "A stream; the data of each event is a JobEvent as JSON",
        schema: JobEventSchema,
        contentType: "text/event-stream",
      },
      { status: 204, description: "Nothing follows `Last-Event-ID`: the job has ended. Browsers then stop asking" },
    ],
    problems: ["gone", "overloaded"],
    handle: async (request) => {
      const { c, caller, context, id, query } = request
      const last = lastEventId(c, query.lastEventId)
      const record = await recordOf(context, id)
      const newest = record.timeline.at(-1)
      if (last !== undefined && isTerminal(record.state) && last === `${newest?.run}.${newest?.n}`) {
        return new Response(null, { status: 204 })
      }
      return stream(request, async function* (signal) {
        const options = last === undefined ? { signal } : { signal, lastEventId: last }
        for await (const event of followJob(context.client.connection, id, options)) yield messageOf(event, caller)
      })
    },
  }),
  route({
    method: "GET",
    path: "/v1/events",
    operation: "followBoard",
    group: "Events",
    summary: "What happens to all jobs, from now on",
    description:
      "Server-sent events, `transition` and `progress`, each with the job it is about; beside them what workers and applications tell, each by its type (`worker-online`, `worker-heartbeat`, `worker-offline`; `task-superseded`: the outcome of a worker that had been overtaken was refused; `task-received` and its like, of workers that were asked to tell of every task). Best effort: nothing is replayed, and a slow reader misses some.",
    scope: "read",
    showsPayload: true,
    query: { types: list(TYPES), jobs: boolean(JOBS), access_token: text(ACCESS_TOKEN) },
    responses: [
      {
        status: 200,
        description: "A stream; the data of each event is a BoardEvent or a WorkerEvent as JSON",
        schema: Schema.Union([BoardEvent, WorkerEvent]),
        contentType: "text/event-stream",
      },
    ],
    problems: ["overloaded"],
    handle: (request) => {
      const { context, query } = request
      const { types, jobs = true } = query
      const isWanted = typeFilter(types)
      if (context.outage() !== undefined) throw new TransportError("unavailable", "the transport is not connected")
      return stream(request, async function* (signal) {
        const { connection } = context.client
        // A message is made when it is sent, so that dropped events cost no rendering.
        const messages = latest<() => SseMessage | undefined>(
          (push, listening) =>
            Promise.all([
              jobs ? connection.jobs.watch({}, (record) => push(() => boardMessage(record)), listening) : undefined,
              listenToEvents(
                connection,
                (event) => {
                  if (isWanted(event.type)) push(() => workerMessage(event))
                },
                listening,
              ),
            ]),
          signal,
        )
        for await (const make of messages) {
          const message = make()
          if (message !== undefined) yield message
        }
      })
    },
  }),
]
