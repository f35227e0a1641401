/**
 * Sends one request to an address that was checked, and decides from the answer whether the webhook was delivered, is sent
 * again, or fails. Redirects are not followed, and the body of the answer is dropped.
 */
import { type IncomingHttpHeaders, type IncomingMessage, request as requestHttp } from "node:http"
import { request as requestHttps } from "node:https"
import { type AddressGuard, AddressRefused } from "./address.ts"

/** The endpoint could not be reached, or hung up. */
export class EndpointUnreachable extends Error {
  readonly _tag = "EndpointUnreachable"
  override readonly name = "EndpointUnreachable"
}

/** The endpoint did not answer in time. */
export class EndpointTimeout extends Error {
  readonly _tag = "EndpointTimeout"
  override readonly name = "EndpointTimeout"
}

export interface RequestOptions {
  readonly method: "GET" | "POST"
  readonly headers: Readonly<Record<string, string>>
  /** None is sent where it is empty. */
  readonly body: string
  readonly guard: AddressGuard
  /** Ends the request, also while the answer is read. */
  readonly signal: AbortSignal
}

/**
 * Resolves with the answer's status and headers. Fails with `AddressRefused`, {@link EndpointUnreachable},
 * {@link EndpointTimeout}, or the signal's reason.
 */
export const request = async (
  url: URL,
  { method, headers, body, guard, signal }: RequestOptions,
): Promise<{ readonly status: number; readonly headers: IncomingHttpHeaders }> => {
  guard.checkHost(url.hostname)
  const start = url.protocol === "https:" ? requestHttps : requestHttp
  let refused: AddressRefused | undefined
  try {
    return await new Promise((resolve, reject) => {
      const answered = (response: IncomingMessage): void => {
        // Only the status is needed. Reading the body would let the endpoint decide how long the attempt takes.
        response.destroy()
        resolve({ status: response.statusCode ?? 0, headers: response.headers })
      }
      const sent = start(url, {
        method,
        headers: body === "" ? headers : { ...headers, "content-length": String(Buffer.byteLength(body)) },
        // A new connection each time, since one that is kept alive was checked for another task.
        agent: false,
        signal,
        lookup: (host, options, done) =>
          guard.lookup(host, options, (error, address, family) => {
            if (error instanceof AddressRefused) refused = error
            done(error, address, family)
          }),
      })
      sent.on("response", answered)
      sent.on("error", reject)
      sent.end(body)
    })
  } catch (cause) {
    if (refused !== undefined) throw refused
    if (isTimeout(signal.reason)) throw new EndpointTimeout(`${url.host} did not answer in time`, { cause })
    signal.throwIfAborted()
    throw new EndpointUnreachable(`${url.host}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
  }
}

const isTimeout = (reason: unknown): boolean => reason instanceof Error && reason.name === "TimeoutError"

/** The endpoint is busy. The job is retried. */
export class EndpointBusy extends Error {
  readonly _tag = "EndpointBusy"
  override readonly name = "EndpointBusy"
}

/** The endpoint refuses the webhook. The job is not retried. */
class EndpointRefused extends Error {
  readonly _tag = "EndpointRefused"
  override readonly name = "EndpointRefused"
}

/** The endpoint has moved. Redirects are not followed, since the new address was never configured and may be any host. */
class EndpointRedirected extends Error {
  readonly _tag = "EndpointRedirected"
  override readonly name = "EndpointRedirected"
}

const BUSY: ReadonlySet<number> = new Set([408, 425, 429])

/** Returns for 2xx. Throws {@link EndpointBusy}, {@link EndpointRefused}, {@link EndpointRedirected}. */
export const throwForStatus = (status: number, headers: IncomingHttpHeaders): void => {
  if (status >= 200 && status < 300) return
  if (status >= 500 || BUSY.has(status)) throw new EndpointBusy(`the endpoint answered ${status}`)
  if (status >= 300 && status < 400) {
    const to = headers.location === undefined ? "" : ` to ${headers.location.slice(0, 500)}`
    throw new EndpointRedirected(`the endpoint answered ${status}${to}; give the final URL`)
  }
  throw new EndpointRefused(`the endpoint answered ${status}`)
}

/** Longest wait that an endpoint can ask for, so that it cannot keep a job waiting for a year. */
const MAX_SECONDS = 24 * 3_600

/** Seconds to wait, from a `Retry-After` header: seconds, or a date. `undefined` if there is none, or none to read. */
export const retryAfter = (header: string | undefined, now: number): number | undefined => {
  if (header === undefined) return undefined
  const seconds = /^\s*\d+\s*$/.test(header) ? Number(header) : (Date.parse(header) - now) / 1000
  return Number.isNaN(seconds) ? undefined : Math.min(MAX_SECONDS, Math.max(0, seconds))
}
