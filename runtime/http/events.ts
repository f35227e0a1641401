/** Server-sent events: of one job, replayed from its record and resumable, and of all jobs, from now on. */
import * as Result from "effect/Result"
import type { Context } from "hono"
import { streamSSE } from "hono/streaming"
import { latest } from "../async/timers.ts"
import { listenToEvents, type ReceivedEvent, typeFilter } from "../cluster/events.ts"
import { eventId } from "../jobs/handle.ts"
import { type BoardEvent, type JobEvent, type JobEventSchema, summaryOf } from "../jobs/lists.ts"
import { boardEventOf, followJob } from "../jobs/tracking/following.ts"
import { refuseInput } from "../options/refuse.ts"
import { renderJson } from "../protocol/codec/json.ts"
import type { JobRecord } from "../protocol/record.ts"
import { isTerminal } from "../protocol/state.ts"
import { EVENT_ROUTES } from "../routes/events.ts"
import { TransportError } from "../transport/mod.ts"
import { MAX_TIMER_MS } from "../transport/timers.ts"
import type { Caller } from "./access.ts"
import { recordOf } from "./job-record.ts"
import { linkedTransition } from "./linked-job.ts"
import { type Route, type RouteRequest, served } from "./route.ts"

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

/** Streams until `events` ends, the client disconnects, its link ends, or the service stops. */
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
    const { link } = caller
    const lapse = link && setTimeout(end, Math.min(link.until - Date.now(), MAX_TIMER_MS))
    const keepAlive = setInterval(() => {
      // The clock may have been put forward.
      if (link && Date.now() >= link.until) return end()
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
      context.log.debug("a stream of events failed", { cause: String(cause) })
    } finally {
      clearInterval(keepAlive)
      clearTimeout(lapse)
      context.closing.removeEventListener("abort", end)
      stop.abort()
      close()
    }
  })
  for (const [name, value] of Object.entries(STREAM_HEADERS)) response.headers.set(name, value)
  return response
}

const messageOf = (event: JobEvent, caller: Caller): SseMessage => {
  const data: typeof JobEventSchema.Type =
    event.type === "transition"
      ? caller.link === undefined
        ? event
        : { type: event.type, ...linkedTransition(event) }
      : caller.may("payload")
        ? event
        : { type: event.type, fraction: event.fraction, at: event.at }
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

/**
 * Id of the last event that the client has seen: from the header, or from the query, since an EventSource sends no
 * header at first.
 */
const lastEventId = (c: Context, query: string | undefined): string | undefined => {
  const [field, given] = query === undefined ? ["Last-Event-ID", c.req.header("last-event-id")] : ["lastEventId", query]
  if (given === undefined || given === "") return undefined
  const problem = eventId(given)
  return problem === undefined ? given : refuseInput(field, problem)
}

export const eventRoutes: ReadonlyArray<Route> = served(EVENT_ROUTES, {
  "GET /v1/jobs/{id}/events": async (request) => {
    const { c, caller, context, id, query } = request
    const last = lastEventId(c, query.lastEventId)
    const record = await recordOf(context, id)
    const newest = record.timeline.at(-1)
    if (last !== undefined && isTerminal(record.state) && last === `${newest?.run}.${newest?.n}`) {
      return undefined
    }
    return stream(request, async function* (signal) {
      const options = last === undefined ? { signal } : { signal, lastEventId: last }
      for await (const event of followJob(context.client.connection, id, options)) yield messageOf(event, caller)
    })
  },
  "GET /v1/events": (request) => {
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
})
