/** The events of a job over HTTP: server-sent events by `fetch`, since an EventSource sends no token. */
import type { CallboardError } from "../errors.ts"
import type { FollowOptions } from "../jobs/handle.ts"
import type { JobEvent } from "../jobs/lists.ts"
import { isTerminal } from "../protocol/state.ts"
import { sleep, startDeadline } from "../transport/timers.ts"
import { answerOf, authorizationOf, Refusal, type Service, unreachable, unreadable, urlOf } from "./http-request.ts"

/** Pause before a broken stream is opened again, until the service names one. */
const AGAIN_MS = 1_000

/** Longest pause that a service can ask for, and longest time without a byte: it writes a comment every few seconds. */
const SILENCE_MS = 60_000

/** One message of a stream. A pause alone has no data. */
interface Message {
  data: string
  id?: string
  retryMs?: number
}

/** Reads the messages of a stream, however its text is cut. One that is not whole when the stream ends is dropped. */
const messagesOf = async function* (body: ReadableStream<Uint8Array<ArrayBuffer>>, alive: () => void) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let text = ""
  let message: Message = { data: "" }
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      alive()
      text += value
      const lines = text.split(/\r?\n|\r(?!$)/)
      text = lines.pop() ?? ""
      for (const line of lines) {
        if (line === "") {
          yield message
          message = { data: "" }
          continue
        }
        const [, field = "", content = ""] = /^(\w*)(?:: ?(.*))?$/.exec(line) ?? []
        // Between two lines of JSON nothing is needed.
        if (field === "data") message.data += content
        else if (field === "id") message.id = content
        else if (field === "retry") message.retryMs = Number(content)
      }
    }
  } finally {
    // An open reader would hold its connection, of which a browser has six for each origin.
    await reader.cancel().catch(() => undefined)
  }
}

/** Whether a request that fails with this error may succeed later. */
const isPassing = ({ code }: CallboardError): boolean => code === "transport-unavailable" || code === "overloaded"

/**
 * Follows the job until it has ended or the signal fires. A stream that breaks is opened again after the last event. Once
 * the service has answered, an outage does not end it while the job goes on.
 */
export const httpEvents = async function* (
  service: Service,
  id: string,
  { lastEventId: last, signal }: FollowOptions,
): AsyncGenerator<JobEvent, void, undefined> {
  const url = urlOf(service, "/v1/jobs/{id}/events", { id })
  let pauseMs = AGAIN_MS
  /** Id of the event with which the last stream ended, if a run ended with it. */
  let ended: string | undefined | null = null
  for (let hasAnswered = false; !signal?.aborted; ) {
    const stop = new AbortController()
    const abort = () => stop.abort()
    signal?.addEventListener("abort", abort)
    let cancel = startDeadline(service.timeoutMs, abort)
    const alive = () => {
      cancel()
      cancel = startDeadline(SILENCE_MS, abort)
    }
    let againMs = 0
    try {
      const response = await fetch(url, {
        headers: {
          accept: "text/event-stream",
          ...authorizationOf(service),
          ...(last && { "last-event-id": last }),
        },
        redirect: "manual",
        signal: stop.signal,
      })
      const { body, headers, status } = response
      if (status === 204) return
      if (!response.ok || body === null || !headers.get("content-type")?.startsWith("text/event-stream")) {
        againMs = Number(headers.get("retry-after")) * 1_000
        throw answerOf(service.base, false, status, await response.text())
      }
      hasAnswered = true
      let isOver = false
      for await (const { data, id: eventId, retryMs = 0 } of messagesOf(body, alive)) {
        if (retryMs > 0) pauseMs = retryMs
        if (data === "") continue
        // The service writes events of this form, and nothing else.
        const event = answerOf(service.base, true, 200, data) as JobEvent | Refusal
        if (event instanceof Refusal) throw new Refusal(unreadable())
        last = eventId ?? last
        if (event.type === "transition") isOver = isTerminal(event.state)
        // While the consumer is busy, nothing is read.
        cancel()
        yield event
        alive()
      }
      if (isOver) {
        // Another run may follow, if the service stopped between the two. It answers with 204 if none does.
        if (ended === last) return
        ended = last
        continue
      }
    } catch (cause) {
      if (ended === last || signal?.aborted) return
      const error = cause instanceof Refusal ? cause.error : unreachable(service, service.timeoutMs, stop.signal, cause)
      if (!hasAnswered || !isPassing(error)) throw error
    } finally {
      cancel()
      stop.abort()
      signal?.removeEventListener("abort", abort)
    }
    await sleep(Math.min(againMs > 0 ? againMs : pauseMs, SILENCE_MS), signal)
  }
}
