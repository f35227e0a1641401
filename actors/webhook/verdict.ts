/** Decides from the answer of an endpoint whether the webhook was delivered, is sent again, or fails. */
import type { IncomingHttpHeaders } from "node:http"

/** The endpoint is busy. The job is retried. */
export class EndpointBusy extends Error {
  readonly _tag = "EndpointBusy"
  override readonly name = "EndpointBusy"
}

/** The endpoint refuses the webhook. The job is not retried. */
export class EndpointRefused extends Error {
  readonly _tag = "EndpointRefused"
  override readonly name = "EndpointRefused"
}

/** The endpoint has moved. Redirects are not followed, since the new address was never configured and may be any host. */
export class EndpointRedirected extends Error {
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
const LONGEST_SECONDS = 24 * 3_600

/** Seconds to wait, from a `Retry-After` header: seconds, or a date. `undefined` if there is none, or none to read. */
export const retryAfter = (header: string | undefined, now: number): number | undefined => {
  if (header === undefined) return undefined
  const seconds = /^\s*\d+\s*$/.test(header) ? Number(header) : (Date.parse(header) - now) / 1000
  return Number.isNaN(seconds) ? undefined : Math.min(LONGEST_SECONDS, Math.max(0, seconds))
}
