/** Lets web pages of other origins call the interface, with a token, where their origins are allowed (CORS). */
import type { MiddlewareHandler } from "hono"
import { CallboardError } from "../errors.ts"

const HEADERS = "authorization, content-type, idempotency-key, prefer, traceparent, tracestate, last-event-id"
const EXPOSED = "location, retry-after, preference-applied, www-authenticate"

/** How long a browser remembers what it may send, in seconds. */
const MAX_AGE = "600"

/** Fails with `invalid-input` for text that is no origin, and for origins without tokens: any page could act for its reader. */
export const checkOrigins = (origins: ReadonlyArray<string>, hasTokens: boolean): void => {
  const refuse = (message: string): never => {
    throw new CallboardError("invalid-input", `http.origins: ${message}`, { field: "http.origins" })
  }
  for (const origin of origins) {
    if (!URL.canParse(origin) || new URL(origin).origin !== origin)
      refuse(`${JSON.stringify(origin.slice(0, 100))} is no origin such as https://app.example.com`)
  }
  if (origins.length > 0 && !hasTokens) refuse("pages of other origins need a token: set http.tokens")
}

export const allowOrigins = (origins: ReadonlyArray<string>): MiddlewareHandler => {
  const allowed = new Set(origins)
  return async (c, next) => {
    const origin = c.req.header("origin")
    if (origin === undefined || !allowed.has(origin)) return next()
    const isPreflight = c.req.method === "OPTIONS" && c.req.header("access-control-request-method") !== undefined
    if (isPreflight) c.res = new Response(null, { status: 204 })
    else await next()
    const { headers } = c.res
    headers.set("access-control-allow-origin", origin)
    headers.append("vary", "origin")
    headers.set("access-control-expose-headers", EXPOSED)
    if (!isPreflight) return
    headers.set("access-control-allow-methods", "GET, HEAD, POST, PATCH, DELETE")
    headers.set("access-control-allow-headers", HEADERS)
    headers.set("access-control-max-age", MAX_AGE)
  }
}
