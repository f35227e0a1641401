/**
 * A Hono application from a table of routes. Before each handler it checks that the service is not stopping, the host, the
 * origin, and the token; what a handler throws becomes a problem response.
 */
import { type Context, Hono, type MiddlewareHandler } from "hono"
import type { Token } from "../config/scopes.ts"
import { CallboardError } from "../errors.ts"
import { allowSilence } from "../platform/bun.ts"
import { withoutAbortWarning } from "../platform/deno.ts"
import { TransportError } from "../transport/mod.ts"
import { ANONYMOUS, authenticatorOf, bearerOf, checkHost, checkOrigin } from "./access.ts"
import { pageRoutes } from "./page/page.ts"
import { asCallboardError, problem } from "./response.ts"
import { type HttpContext, type Route, scopesOf } from "./route.ts"

export interface HonoAppOptions {
  readonly routes: ReadonlyArray<Route>
  /** Without tokens every caller may do everything, except pages of other origins. */
  readonly tokens: ReadonlyArray<Token>
  /** Signs links to jobs. Absent: every link is refused. */
  readonly linkSecret?: string | undefined
  /** Origins whose pages may call it with a token. */
  readonly origins: ReadonlyArray<string>
  /** Answer only requests that name this machine as their host. */
  readonly loopbackOnly: boolean
  /** The message of the 404 for every other path. */
  readonly unknownPath: string
  /** Whether the page is shown. Defaults to false. */
  readonly page?: boolean
}

const honoPath = (path: string): string => path.replaceAll(/\{(\w+)\}/g, ":$1")

/** Each path with its methods, as the `Allow` header names them; paths without parameters come first. */
const allowedOf = (routes: ReadonlyArray<Route>): ReadonlyArray<readonly [path: string, methods: string]> => {
  const patterns = routes.map(({ method, path }) => {
    const methods = method === "GET" ? ["GET", "HEAD"] : [method]
    return { methods, pattern: new RegExp(`^${path.replaceAll(/\{\w+\}/g, "[^/]+")}$`) }
  })
  return [...new Set(routes.map(({ path }) => path))]
    .sort((a, b) => Number(a.includes("{")) - Number(b.includes("{")))
    .map((path) => {
      const serving = patterns.filter(({ pattern }) => pattern.test(path))
      return [path, serving.flatMap(({ methods }) => methods).join(", ")]
    })
}

/**
 * The `Authorization` of a request. A browser's EventSource sends no token in it, only the password of a proxy, so that streams
 * take the token from the query.
 */
const credentialOf = (c: Context, { query = {} }: Route): string | undefined => {
  const header = c.req.header("authorization")
  const given = "access_token" in query ? c.req.query("access_token") : undefined
  return given === undefined || bearerOf(header) !== undefined ? header : `Bearer ${given}`
}

/** Fails with `forbidden` unless a link may use the route, and is for the job that the path names. */
const checkLink = ({ link }: Route, linked: string, id: string | undefined): void => {
  if (link === undefined)
    throw new CallboardError(
      "forbidden",
      `this is a link to job ${linked}: it allows only its record, its result, its events, and if it has the scope, to cancel and retry it`,
    )
  if (id !== linked) throw new CallboardError("forbidden", `this is a link to job ${linked}, and to no other job`)
}

/** Fails with `invalid-input` when a token cannot be used. */
export const honoApp = (
  context: HttpContext,
  { routes, tokens, linkSecret, origins, loopbackOnly, unknownPath, page = false }: HonoAppOptions,
): Hono => {
  const authenticate = authenticatorOf(tokens, linkSecret)
  checkOrigins(origins, tokens.length > 0)
  const admit = (request: Request): void => {
    // The address is read by routes, by its query or to tell where the application is mounted.
    if (!URL.canParse(request.url))
      throw new CallboardError("invalid-input", "Host: must be a host name, with or without a port", { field: "Host" })
    if (context.closing.aborted) throw new TransportError("unavailable", "this service is stopping")
    if (loopbackOnly) checkHost(request.headers.get("host") ?? undefined)
    if (tokens.length === 0 && request.method !== "GET" && request.method !== "HEAD") checkOrigin(request)
  }

  withoutAbortWarning()
  const app = new Hono()
  if (origins.length > 0) app.use("*", allowOrigins(origins))
  if (page) app.route("/", pageRoutes(admit, tokens.length > 0))
  for (const route of routes) {
    const scopes = scopesOf(route)
    app.on(route.method, honoPath(route.path), (c) => {
      admit(c.req.raw)
      const caller = route.scope === undefined ? ANONYMOUS : authenticate(credentialOf(c, route))
      if (caller.link !== undefined) checkLink(route, caller.link.id, c.req.param("id"))
      const scope = scopes.find((each) => !caller.may(each))
      if (scope === undefined) {
        allowSilence(c.env, c.req.raw)
        return route.serve(c, context, caller)
      }
      return problem(new CallboardError("forbidden", `this token lacks the scope ${scope}`, { scope }), {
        headers: { "www-authenticate": `Bearer realm="callboard", error="insufficient_scope", scope="${scope}"` },
      })
    })
  }
  for (const [path, methods] of allowedOf(routes)) {
    app.all(honoPath(path), (c) => {
      admit(c.req.raw)
      if (isPreflight(c)) throw foreignOrigin(c.req.header("origin") ?? "")
      const error = new CallboardError("unsupported", `${c.req.method} is not allowed here; use ${methods}`)
      return problem(error, { status: 405, headers: { allow: methods } })
    })
  }
  app.all("*", (c) => {
    admit(c.req.raw)
    const isForReader = c.req.method === "GET" && (c.req.header("accept") ?? "").includes("text/html")
    if (page && isForReader && !/^\/v1(\/|$)/.test(c.req.path)) {
      return c.text(
        `There is no page at ${c.req.path.slice(0, 200)}. The dashboard starts at the root of this application.\n`,
        404,
      )
    }
    throw new CallboardError("not-found", unknownPath)
  })
  app.onError((thrown) => problem(asCallboardError(thrown, context.log)))
  return app
}

const HEADERS =
  "authorization, content-type, idempotency-key, prefer, traceparent, tracestate, last-event-id, if-none-match"
const EXPOSED = "location, retry-after, preference-applied, www-authenticate, etag"

/** How long a browser remembers what it may send, in seconds. */
const MAX_AGE = "600"

/** Fails with `invalid-input` for text that is no origin, and for origins without tokens: any page could act for its reader. */
const checkOrigins = (origins: ReadonlyArray<string>, hasTokens: boolean): void => {
  const refuse = (message: string): never => {
    throw new CallboardError("invalid-input", `http.origins: ${message}`, { field: "http.origins" })
  }
  for (const origin of origins) {
    if (!URL.canParse(origin) || new URL(origin).origin !== origin)
      refuse(`${JSON.stringify(origin.slice(0, 100))} is not an origin such as https://app.example.com`)
  }
  if (origins.length > 0 && !hasTokens) refuse("pages of other origins need a token: set http.tokens")
}

/** Whether a browser asks if a page of another origin may send a request. */
const isPreflight = ({ req }: Context): boolean =>
  req.method === "OPTIONS" && req.header("access-control-request-method") !== undefined

/** Why pages of an origin may not call the interface; the tools of a browser show it. */
const foreignOrigin = (origin: string): CallboardError =>
  new CallboardError(
    "forbidden",
    `pages of ${JSON.stringify(origin.slice(0, 100))} may not call this service: add their origin to http.origins, which requires http.tokens`,
    { field: "http.origins" },
  )

/** Lets web pages of these origins call the interface, with a token (CORS). */
const allowOrigins = (origins: ReadonlyArray<string>): MiddlewareHandler => {
  const allowed = new Set(origins)
  return async (c, next) => {
    const origin = c.req.header("origin")
    if (origin === undefined || !allowed.has(origin)) return next()
    const isQuestion = isPreflight(c)
    if (isQuestion) c.res = new Response(null, { status: 204 })
    else await next()
    const { headers } = c.res
    headers.set("access-control-allow-origin", origin)
    headers.append("vary", "origin")
    headers.set("access-control-expose-headers", EXPOSED)
    if (!isQuestion) return
    headers.set("access-control-allow-methods", "GET, HEAD, POST, PATCH, DELETE")
    headers.set("access-control-allow-headers", HEADERS)
    headers.set("access-control-max-age", MAX_AGE)
  }
}
