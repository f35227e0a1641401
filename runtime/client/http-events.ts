/** The events of a job over HTTP: server-sent events by `fetch`, since an EventSource sends no token. */
import type { CallboardError } from "../errors.ts"
import type { FollowOptions } from "../jobs/handle.ts"
import type { JobEvent } from "../jobs/lists.ts"
import { compact } from "../protocol/compact.ts"
import { isTerminal } from "../protocol/state.ts"
import { sleep, startDeadline } from "../transport/timers.ts"
import { answerOf, authorizationOf, Refusal, type Service, unreachable, urlOf } from "./http-request.ts"

/** Pause before a broken stream is opened again, until the service names one. */
const AGAIN_MS = 1_000

/** Longest time without a byte: a service writes a comment every few seconds. */
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
      const lines = text.split(/\r\n|\n|\r(?=[\s\S])/)
      text = lines.pop() ?? ""
      for (const line of lines) {
        if (line === "") {
          yield message
          message = { data: "" }
          continue
        }
        const [, field = "", content = ""] = /^([^:]*)(?:: ?(.*))?$/.exec(line) ?? []
        if (field === "data") message.data += message.data === "" ? content : `\n${content}`
        else if (field === "id") message.id = content
        else if (field === "retry" && /^\d+$/.test(content)) message.retryMs = Number(content)
      }
    }
  } finally {
    // An open reader would hold its connection, of which a browser has six for each origin.
    await reader.cancel().catch(() => undefined)
  }
}

/** Whether a request that fails with this error may succeed later. */
const isPassing = ({ code }: CallboardError): boolean =>
  code === "transport-unavailable" || code === "overloaded" || code === "rate-limited"

/**
 * Follows the job until it has ended or the signal fires. A stream that breaks is opened again after the last event. Once
 * the service has answered, an outage does not end it.
 */
export const httpEvents = async function* (
  service: Service,
  id: string,
  { lastEventId: last, signal }: FollowOptions,
): AsyncGenerator<JobEvent, void, undefined> {
  const url = urlOf(service, "/v1/jobs/{id}/events", { id })
  let pauseMs = AGAIN_MS
  for (let hasAnswered = false; !signal?.aborted; ) {
    const stop = new AbortController()
    const abort = () => stop.abort()
    signal?.addEventListener("abort", abort, { once: true })
    let cancel = startDeadline(service.timeoutMs, abort)
    const alive = () => {
      cancel()
      cancel = startDeadline(SILENCE_MS, abort)
    }
    let againMs: number | undefined
    try {
      const response = await fetch(url, {
        headers: {
          accept: "text/event-stream",
          ...authorizationOf(service),
          ...compact({ "last-event-id": last || undefined }),
        },
        redirect: "manual",
        signal: stop.signal,
      })
      if (response.status === 204) return
      if (!response.ok || response.body === null) {
        againMs = Number(response.headers.get("retry-after")) * 1_000 || undefined
        const answer = answerOf(service.base, false, response.status, await response.text())
        if (answer instanceof Refusal) throw answer
        return
      }
      hasAnswered = true
      for await (const { data, id: eventId, retryMs } of messagesOf(response.body, alive)) {
        pauseMs = retryMs ?? pauseMs
        if (data === "") continue
        // The service writes events of this form, and nothing else.
        const event: JobEvent = JSON.parse(data)
        last = eventId ?? last
        // While the consumer is busy, nothing is read.
        cancel()
        yield event
        alive()
        if (event.type === "transition" && isTerminal(event.state)) return
      }
    } catch (cause) {
      if (signal?.aborted) return
      const error = cause instanceof Refusal ? cause.error : unreachable(service, service.timeoutMs, stop.signal, cause)
      if (!hasAnswered || !isPassing(error)) throw error
    } finally {
      cancel()
      stop.abort()
      signal?.removeEventListener("abort", abort)
    }
    await sleep(againMs ?? pauseMs, signal)
  }
}
